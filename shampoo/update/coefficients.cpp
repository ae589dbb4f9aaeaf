// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/coefficients.h"

#include <cmath>

namespace shampoo {

namespace {

/// Distributed Shampoo's diagonal kinds (AdaGrad, RMSprop, Adam): V <- keep V + add G^2, divided by
/// a bias correction.
void set_grafting(const Diagonal& grafting, const Rates& rates, std::int64_t step,
                  kernels::SecondMoment& v) {
  const double beta2 = rates.grafting_beta2;
  v = {.keep = 1, .add = 1, .epsilon = rates.grafting_epsilon};
  if (const auto* rmsprop = std::get_if<RmsProp>(&grafting)) {
    v.keep = beta2;
    v.add = rmsprop->drop_weighting ? 1 : 1 - beta2;
  } else if (const auto* adam = std::get_if<Adam>(&grafting)) {
    v.keep = beta2;
    v.add = adam->drop_weighting ? 1 : 1 - beta2;
    if (!adam->drop_weighting) v.scale = 1 / (1 - std::pow(beta2, static_cast<double>(step)));
  }
}

/// Weight decay of the decoupled kinds: P <- P + decay W, before the learning rate is applied.
double decoupled_decay(WeightDecay kind, const Rates& rates) {
  switch (kind) {
    case WeightDecay::l2:
      return 0;
    case WeightDecay::decoupled:
      return rates.weight_decay;
    case WeightDecay::corrected:
      return rates.weight_decay * rates.learning_rate / *rates.peak_learning_rate;
    case WeightDecay::independent:
      return rates.weight_decay / *rates.peak_learning_rate;
  }
  return 0;
}

}  // namespace

kernels::Coefficients coefficients_of(const Recipe& recipe, const Rates& rates, std::int64_t step) {
  const auto& preconditioner = std::get<RootInverse>(recipe.preconditioner);
  const double beta3 = rates.beta3.value_or(rates.beta1);

  kernels::Coefficients c;
  if (recipe.weight_decay == WeightDecay::l2) c.l2 = rates.weight_decay;
  c.factor_keep = rates.beta2;
  c.factor_add = rates.beta2 == 1 || preconditioner.drop_weighting ? 1 : 1 - rates.beta2;

  // F = lerp(M, G, 1 - beta3) / (1 - beta3 beta1^(t - 1)); F = G where beta1 = 0
  c.first_weight = 1 - rates.beta1;
  c.filter_weight = 1 - beta3;
  if (recipe.bias_correction && rates.beta1 != 0)
    c.filter_scale = 1 / (1 - beta3 * std::pow(rates.beta1, static_cast<double>(step - 1)));

  if (recipe.grafting) set_grafting(*recipe.grafting, rates, step, c.grafting);
  c.decay = decoupled_decay(recipe.weight_decay, rates);
  c.momentum = rates.momentum;
  c.damp = 1 - rates.dampening;
  c.step = -rates.learning_rate;
  return c;
}

double factor_correction(const Recipe& recipe, const Rates& rates, std::int64_t step) {
  const auto& preconditioner = std::get<RootInverse>(recipe.preconditioner);
  if (!recipe.bias_correction || preconditioner.drop_weighting || rates.beta2 == 1) return 1;
  return 1 - std::pow(rates.beta2, static_cast<double>(step));
}

kernels::Mode mode_of(const Recipe& recipe, std::int64_t step) {
  using enum kernels::Mode;
  const bool started = recipe.refresh.first && step >= *recipe.refresh.first;
  return started ? preconditioned : unpreconditioned;
}

bool is_due(const Refresh& refresh, std::int64_t step, std::int64_t phase) {
  if (!refresh.first || step < *refresh.first) return false;
  return step == *refresh.first || (step + phase) % refresh.every == 0;
}

}  // namespace shampoo
