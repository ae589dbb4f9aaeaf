// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "shampoo/recipe.h"

namespace shampoo {

/// See recipe_from(). Adds a line to `faults` for each field that cannot be read.
Recipe read_recipe(std::span<const RecipeField> fields, const Recipe& base,
                   std::vector<std::string>& faults);

}  // namespace shampoo
