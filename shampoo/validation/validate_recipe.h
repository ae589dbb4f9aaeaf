// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "shampoo/optimizer.h"

namespace shampoo {

/// The checks of everything that the caller hands over. Each throws std::invalid_argument whose
/// message names the group, the parameter where there is one, the field, the accepted range and
/// what was found. None changes anything; none allocates unless it throws.

void validate_recipe(const Recipe& recipe, int group);
void validate_rates(const Rates& rates, const Recipe& recipe, int group);
void validate_options(const OptimizerOptions& options);

}  // namespace shampoo
