// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

/// Lookahead [Zhang 2019]: slow weights, to which the values return.
namespace shampoo {

void check(const Lookahead& kind, const Recipe& recipe, const Checks& checks);
/// Weight of the value that a step leaves, counted from 1, in the average.
double new_value_weight(const Lookahead& kind, std::int64_t step);
/// Whether the value becomes the average where the weight is not 0.
bool replaces_values(const Lookahead& kind);

}  // namespace shampoo
