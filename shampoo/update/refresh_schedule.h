// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "shampoo/recipe.h"

namespace shampoo {

/// Steps over which the refreshes of a recipe's blocks are spread, see grouping::stagger(); 1 where
/// there are none or all are at once.
std::int64_t refresh_interval(const Recipe& recipe);

/// True if a block's derived slots are recomputed at its parameter's `step`-th step, counted from
/// 1: from refresh.first on, whenever step + phase is a multiple of refresh.every, and unless the
/// recipe is staggered at refresh.first itself.
bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase);

/// True if a block is preconditioned at its parameter's `step`-th step: from its first refresh on,
/// or always for a preconditioner that acts without one.
bool is_preconditioned(const Recipe& recipe, std::int64_t step, std::int64_t phase);

}  // namespace shampoo
