// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/views.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// The coefficients that no kind fills in, for a parameter's `step`-th step, counted from 1:
/// filter, weight decay and step length. Computed in float64.
kernels::Coefficients coefficients_of(const Recipe& recipe, const Rates& rates, std::int64_t step);

}  // namespace shampoo
