// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

/// Exponential moving average of values [Polyak 1992].
namespace shampoo {

void check(const ExponentialAverage& kind, const Recipe& recipe, const Checks& checks);
/// Weight of the value that a step leaves, counted from 1, in the average.
double new_value_weight(const ExponentialAverage& kind, std::int64_t step);
/// Whether the value becomes the average where the weight is not 0.
bool replaces_values(const ExponentialAverage& kind);

}  // namespace shampoo
