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

Recipe muon() {
  Recipe recipe = reference_muon();
  recipe.preconditioner = Spectral{.scale = SpectralScale::match_rms};
  return recipe;
}

Rates muon_rates() {
  return {.learning_rate = 1e-3, .beta1 = 0.95, .weight_decay = 0.1, .beta3 = 0.95 * 0.95};
}

Recipe reference_muon() {
  Recipe recipe;
  recipe.preconditioner = Spectral{};
  recipe.grafting = std::nullopt;
  recipe.weight_decay = WeightDecay::decoupled;
  recipe.blocking = {.size = grouping::never_cut, .target_order = 2};
  return recipe;
}

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
