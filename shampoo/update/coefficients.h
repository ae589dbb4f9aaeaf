// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/views.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// What the kernels read for a parameter's `step`-th step, counted from 1. Computed in double.
kernels::Coefficients coefficients_of(const Recipe& recipe, const Rates& rates, std::int64_t step);

/// 1 - beta2^step, by which factors are divided before their roots are taken; 1 without correction.
double factor_correction(const Recipe& recipe, const Rates& rates, std::int64_t step);

/// What a block whose gradient is present does at its parameter's `step`-th step.
kernels::Mode mode_of(const Recipe& recipe, std::int64_t step);

/// Whether roots are recomputed at the parameter's `step`-th step. Phase: see stagger().
bool is_due(const Refresh& refresh, std::int64_t step, std::int64_t phase);

}  // namespace shampoo
