// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/elementwise.h"
#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

/// Throws std::invalid_argument for options out of range.
void check_update_scaling(const Recipe& recipe, const Checks& checks);
bool scales_updates(const Recipe& recipe);
/// Without sums.
kernels::DirectionScaling scaling_of(const Recipe& recipe);

}  // namespace shampoo
