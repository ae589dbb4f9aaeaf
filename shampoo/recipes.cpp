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

Recipe soap() {
  Recipe recipe;
  recipe.preconditioner = EigenvalueCorrected{};
  recipe.grafting = std::nullopt;
  recipe.refresh = {.every = 10, .first = 1};
  return recipe;
}

Recipe soap_reference() {
  Recipe recipe = soap();
  recipe.preconditioner = EigenvalueCorrected{.solver = Qr{}};
  recipe.refresh.first = 10;
  return recipe;
}

Rates soap_rates() {
  return {.learning_rate = 3e-3, .beta1 = 0.95, .beta2 = 0.95, .weight_decay = 0.01};
}

Recipe kl_shampoo() {
  Recipe recipe = soap();
  recipe.preconditioner =
      KullbackLeibler{.form = Eigendecomposed{.solver = Eigh{.relative_floor = 1e-7},
                                              .exponents = {{.order = 2, .value = 0.5}}},
                      .normalize = true};
  return recipe;
}

Recipe kl_shampoo_reference() {
  Recipe recipe = reference();
  recipe.preconditioner = KullbackLeibler{.form = RootInverse{.solver = Eigen{}}};
  return recipe;
}

Rates kl_shampoo_rates() { return soap_rates(); }

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
