// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "shampoo/recipe.h"

namespace shampoo {

/// Steps over which the refreshes of a recipe's blocks are spread, see grouping::stagger(); 1 where
/// there are none or all are at once.
std::int64_t refresh_interval(const Recipe& recipe);

/// True if a block's derived slots are recomputed at its parameter's `step`-th step, counted
/// from 1. Staggered: whenever step + phase is a multiple of `every`, from step first - every + 1
/// on, and at `first` if that was never before. Otherwise at `first`, and whenever step is a
/// multiple after it.
bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase);

/// True if all blocks have had their first refresh by their parameter's `step`-th step, in any
/// phase.
bool is_refreshed_by(const Recipe& recipe, std::int64_t step);

/// True if a block is preconditioned at its parameter's `step`-th step: from refresh.first on, or
/// always where the preconditioner acts before it.
bool is_preconditioned(const Recipe& recipe, std::int64_t step);

}  // namespace shampoo
