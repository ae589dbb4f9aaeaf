// SPDX-License-Identifier: Apache-2.0
#include "shampoo/recipes.h"

namespace shampoo::recipes {

Recipe adamw() {
  Recipe recipe;
  recipe.preconditioner = Adam{};
  recipe.grafting = std::nullopt;
  recipe.weight_decay = WeightDecay::decoupled;
  recipe.blocking.size = grouping::never_cut;
  return recipe;
}

Recipe schedule_free_adamw() {
  Recipe recipe = adamw();
  recipe.averaging = ScheduleFree{};
  return recipe;
}

Rates schedule_free_adamw_rates() {
  return {.learning_rate = 2.5e-3, .beta1 = 0, .train_interpolation = 0.9};
}

Recipe gpa_adamw() {
  Recipe recipe = adamw();
  recipe.averaging = PrimalAveraging{};
  return recipe;
}

Rates gpa_adamw_rates() { return {.train_interpolation = 0.7, .evaluation_interpolation = 0.9967}; }

Recipe reference() {
  Recipe recipe;
  recipe.preconditioner = RootInverse{.solver = Eigen{}};
  recipe.grafting = std::nullopt;
  recipe.refresh = {.every = 1, .first = 1};
  recipe.blocking = {.size = 1024, .target_order = 1};
  return recipe;
}

Rates reference_rates() {
  return {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 1, .epsilon = 1e-12};
}

}  // namespace shampoo::recipes
