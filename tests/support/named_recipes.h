// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shampoo/recipes.h"

namespace shampoo::test {

/// A recipe of shampoo/recipes.h with its rates.
struct NamedRecipe {
  Recipe recipe;
  Rates rates;
};

/// "shampoo", for root-inverse Shampoo with Adam grafting, the same with options that keep less
/// state, and the functions of recipes.h.
std::vector<std::string> recipe_names();

/// Recipes that cut blocks and refresh take `block`, which is their longest side, with dimensions
/// merged as far as that allows, and `frequency`, in steps. Throws std::out_of_range for a name
/// that is not in recipe_names().
NamedRecipe named_recipe(const std::string& name, std::int64_t block, std::int64_t frequency);

}  // namespace shampoo::test
