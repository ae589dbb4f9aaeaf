// SPDX-License-Identifier: Apache-2.0
#include "shampoo/routing/recipe_names.h"

#include <array>

#include "grouping/joined.h"
#include "shampoo/recipes.h"

namespace shampoo {

namespace {

struct NamedRecipe {
  std::string_view name;
  Recipe (*recipe)();
  Rates (*rates)();
};

Recipe default_recipe() { return {}; }
Rates default_rates() { return {}; }

constexpr std::array<NamedRecipe, 13> known{
    {{"shampoo", default_recipe, default_rates},
     {"soap", recipes::soap, recipes::soap_rates},
     {"soap_reference", recipes::soap_reference, recipes::soap_rates},
     {"kl_shampoo", recipes::kl_shampoo, recipes::kl_shampoo_rates},
     {"kl_shampoo_reference", recipes::kl_shampoo_reference, recipes::soap_rates},
     {"muon", recipes::muon, recipes::muon_rates},
     {"reference_muon", recipes::reference_muon, recipes::muon_rates},
     {"adamw", recipes::adamw, default_rates},
     {"schedule_free_adamw", recipes::schedule_free_adamw, recipes::schedule_free_adamw_rates},
     {"gpa_adamw", recipes::gpa_adamw, recipes::gpa_adamw_rates},
     {"lion", recipes::lion, recipes::lion_rates},
     {"sgd", recipes::sgd, recipes::sgd_rates},
     {"reference", recipes::reference, recipes::reference_rates}}};

}  // namespace

std::optional<Route> recipe_named(std::string_view name) {
  for (const NamedRecipe& named : known)
    if (named.name == name) return Route{.recipe = named.recipe(), .rates = named.rates()};
  return std::nullopt;
}

std::string recipe_names_text() {
  return grouping::joined(known, ", ", [](const NamedRecipe& named) { return named.name; });
}

}  // namespace shampoo
