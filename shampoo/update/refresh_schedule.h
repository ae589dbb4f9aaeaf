// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/placement.h"
#include "shampoo/recipe.h"

namespace shampoo {

/// True if a block is preconditioned at its parameter's `step`-th step, counted from 1: from the
/// first refresh on, or always for a preconditioner that acts without one.
bool is_preconditioned(const Recipe& recipe, std::int64_t step);

/// True if a block's derived slots are recomputed at its parameter's `step`-th step: at
/// refresh.first, and whenever step + phase is a multiple of refresh.every afterwards.
bool is_due(const Recipe& recipe, std::int64_t step, std::int64_t phase);

/// The phase of every block of one virtual group, in plan order: with a staggered refresh each
/// block goes to the step of the interval that has least work so far; otherwise 0. A function of
/// the list of blocks alone, so that it is the same for any owners.
std::vector<std::int64_t> stagger(const Recipe& recipe, std::span<const grouping::Work> works);

}  // namespace shampoo
