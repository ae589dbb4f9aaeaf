// SPDX-License-Identifier: Apache-2.0
#include "tests/support/named_recipes.h"

#include <map>

namespace shampoo::test {

namespace {

RootInverse with(std::optional<Type> root_type, bool precondition_1d) {
  return {.precondition_1d = precondition_1d, .root_type = root_type};
}

const std::map<std::string, NamedRecipe>& known_recipes() {
  static const std::map<std::string, NamedRecipe> known = {
      {"shampoo", {{.preconditioner = RootInverse{}, .grafting = Adam{}}, {}}},
      {"shampoo_float16_roots", {{.preconditioner = with(Type::float16, true)}, {}}},
      {"shampoo_without_1d", {{.preconditioner = with(std::nullopt, false)}, {}}},
      {"shampoo_small_state", {{.preconditioner = with(Type::float16, false)}, {}}},
      {"reference", {recipes::reference(), recipes::reference_rates()}},
      {"soap", {recipes::soap(), recipes::soap_rates()}},
      {"soap_reference", {recipes::soap_reference(), recipes::soap_rates()}},
      {"kl_shampoo", {recipes::kl_shampoo(), recipes::kl_shampoo_rates()}},
      {"kl_shampoo_reference", {recipes::kl_shampoo_reference(), recipes::soap_rates()}},
      {"muon", {recipes::muon(), recipes::muon_rates()}},
      {"reference_muon", {recipes::reference_muon(), recipes::muon_rates()}},
      {"adamw", {recipes::adamw(), {}}},
      {"lion", {recipes::lion(), recipes::lion_rates()}},
      {"sgd", {recipes::sgd(), recipes::sgd_rates()}},
      {"schedule_free_adamw",
       {recipes::schedule_free_adamw(), recipes::schedule_free_adamw_rates()}},
      {"gpa_adamw", {recipes::gpa_adamw(), recipes::gpa_adamw_rates()}}};
  return known;
}

}  // namespace

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const auto& [name, recipe] : known_recipes()) names.push_back(name);
  return names;
}

NamedRecipe named_recipe(const std::string& name, std::int64_t block, std::int64_t frequency) {
  NamedRecipe named = known_recipes().at(name);
  if (named.recipe.blocking.size == grouping::never_cut) return named;
  named.recipe.refresh.every = frequency;
  if (named.recipe.refresh.first != 1) named.recipe.refresh.first = frequency;
  named.recipe.blocking = {.size = block, .target_order = 1};
  return named;
}

}  // namespace shampoo::test
