// SPDX-License-Identifier: Apache-2.0
#include "shampoo/recipes.h"

#include <stdexcept>
#include <string>

#include "grouping/number_text.h"

namespace shampoo::recipes {

namespace {

/// A kind that works on each element alone; with or without a first moment.
Recipe elementwise(const Preconditioner& kind, bool filter = true) {
  Recipe recipe;
  recipe.filter = filter;
  recipe.preconditioner = kind;
  recipe.grafting = std::nullopt;
  recipe.weight_decay = WeightDecay::decoupled;
  recipe.blocking.size = grouping::never_cut;
  return recipe;
}

}  // namespace

Recipe adamw() { return elementwise(Adam{}); }

Recipe sgd() {
  Recipe recipe = elementwise(Sgd{}, false);
  recipe.averaging = Momentum{.undamped_start = true};
  return recipe;
}

Rates sgd_rates() { return {.learning_rate = 1e-2, .momentum = 0.9}; }

Recipe lion() {
  Recipe recipe = elementwise(Sign{});
  recipe.bias_correction = false;
  return recipe;
}

Rates lion_rates() { return {.learning_rate = 1e-4, .beta1 = 0.99, .beta3 = 0.9}; }

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

Recipe schedule_free_adamw() {
  Recipe recipe = elementwise(Adam{}, false);
  recipe.averaging = ScheduleFree{};
  return recipe;
}

Rates schedule_free_adamw_rates() { return {.learning_rate = 2.5e-3, .train_interpolation = 0.9}; }

Recipe gpa_adamw() {
  Recipe recipe = adamw();
  recipe.averaging = PrimalAveraging{};
  return recipe;
}

Rates gpa_adamw_rates() { return {.train_interpolation = 0.7, .evaluation_interpolation = 0.9967}; }

Recipe soap() {
  Recipe recipe;
  recipe.preconditioner =
      EigenvalueCorrected{.solver = Qr{.max_iterations = 2},
                          .ignored_basis_change_dims = {{.order = 1, .dimensions = {0}}}};
  recipe.grafting = std::nullopt;
  recipe.refresh = {.every = 10, .first = 1};
  return recipe;
}

Recipe soap_reference() {
  Recipe recipe = soap();
  recipe.preconditioner = EigenvalueCorrected{.solver = Qr{}};
  recipe.refresh = {.every = 10, .first = 10, .staggered = false};
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
  recipe.grafting = Adam{};
  return recipe;
}

Recipe kl_shampoo_reference() {
  Recipe recipe = reference();
  recipe.preconditioner = KullbackLeibler{.form = RootInverse{.solver = Eigen{}}};
  return recipe;
}

Rates kl_shampoo_rates() {
  Rates rates = soap_rates();
  rates.grafting_beta2 = rates.beta2;
  return rates;
}

Recipe reference() {
  Recipe recipe;
  recipe.preconditioner = RootInverse{.solver = Eigen{}};
  recipe.grafting = std::nullopt;
  recipe.refresh = {.every = 1, .first = 1, .staggered = false};
  recipe.blocking = {.size = 1024, .target_order = 1};
  return recipe;
}

Rates reference_rates() {
  return {.learning_rate = 1e-2, .beta1 = 0.9, .beta2 = 1, .epsilon = 1e-12};
}

namespace torch {

namespace {

Recipe with_l2(const Preconditioner& kind, bool maximize, bool filter = false) {
  Recipe recipe = elementwise(kind, filter);
  recipe.weight_decay = WeightDecay::l2;
  recipe.maximize = maximize;
  return recipe;
}

void require_nesterov_form(const SgdOptions& options) {
  if (options.momentum > 0 && options.dampening == 0) return;
  throw std::invalid_argument(
      "torch.optim.SGD: nesterov must be false unless momentum is > 0 and dampening 0, got true "
      "with momentum " +
      grouping::exact_text(options.momentum) + " and dampening " +
      grouping::exact_text(options.dampening));
}

}  // namespace

Recipe sgd(const SgdOptions& options) {
  if (options.nesterov) require_nesterov_form(options);
  Recipe recipe = with_l2(Sgd{}, options.maximize);
  if (options.momentum != 0)
    recipe.averaging = Momentum{.nesterov = options.nesterov, .undamped_start = true};
  return recipe;
}

Rates sgd_rates(const SgdOptions& options) {
  Rates rates{.learning_rate = options.lr, .weight_decay = options.weight_decay};
  rates.momentum = options.momentum;
  if (options.momentum != 0) rates.dampening = options.dampening;
  return rates;
}

Recipe adagrad(const AdagradOptions& options) {
  return with_l2(AdaGrad{.initial_accumulator = options.initial_accumulator_value},
                 options.maximize);
}

Rates adagrad_rates(const AdagradOptions& options) {
  return {.learning_rate = options.lr,
          .epsilon = options.eps,
          .weight_decay = options.weight_decay,
          .learning_rate_decay = options.lr_decay};
}

Recipe rmsprop(const RmspropOptions& options) {
  Recipe recipe = with_l2(RmsProp{.centered = options.centered}, options.maximize);
  if (options.momentum != 0) recipe.averaging = Momentum{};
  return recipe;
}

Rates rmsprop_rates(const RmspropOptions& options) {
  return {.learning_rate = options.lr,
          .beta2 = options.alpha,
          .epsilon = options.eps,
          .weight_decay = options.weight_decay,
          .momentum = options.momentum};
}

Recipe adam(const AdamOptions& options) {
  Recipe recipe = with_l2(Adam{.amsgrad = options.amsgrad}, options.maximize, true);
  if (options.decoupled_weight_decay) recipe.weight_decay = WeightDecay::decoupled;
  return recipe;
}

Rates adam_rates(const AdamOptions& options) {
  return {.learning_rate = options.lr,
          .beta1 = options.betas[0],
          .beta2 = options.betas[1],
          .epsilon = options.eps,
          .weight_decay = options.weight_decay};
}

namespace {

AdamOptions decoupled(const AdamWOptions& options) {
  return {.lr = options.lr,
          .betas = options.betas,
          .eps = options.eps,
          .weight_decay = options.weight_decay,
          .amsgrad = options.amsgrad,
          .maximize = options.maximize,
          .decoupled_weight_decay = true};
}

}  // namespace

Recipe adamw(const AdamWOptions& options) { return adam(decoupled(options)); }
Rates adamw_rates(const AdamWOptions& options) { return adam_rates(decoupled(options)); }

}  // namespace torch

}  // namespace shampoo::recipes
