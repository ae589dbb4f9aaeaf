// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/coefficients.h"

#include <cmath>

namespace shampoo {

namespace {

/// P <- P + decay W, before the step length is applied [Loshchilov 2019]. Divided by the peak
/// learning rate, the decay of the weights does not depend on it.
double decoupled_decay(WeightDecay kind, const Rates& rates) {
  const double peak = rates.peak_learning_rate.value_or(rates.learning_rate);
  switch (kind) {
    case WeightDecay::l2:
      return 0;
    case WeightDecay::decoupled:
      return rates.weight_decay;
    case WeightDecay::corrected:
      return rates.weight_decay * rates.learning_rate / peak;
    case WeightDecay::independent:
      return rates.weight_decay / peak;
  }
  return 0;
}

}  // namespace

kernels::Coefficients coefficients_of(const Recipe& recipe, const Rates& rates, std::int64_t step) {
  const double beta3 = rates.beta3.value_or(rates.beta1);
  kernels::Coefficients c;
  if (recipe.weight_decay == WeightDecay::l2) c.l2 = rates.weight_decay;

  // F = lerp(M, G, 1 - beta3) / (1 - beta3 beta1^(t - 1)); F = G where beta1 = 0
  c.first_weight = 1 - rates.beta1;
  c.filter_weight = 1 - beta3;
  if (recipe.bias_correction && rates.beta1 != 0)
    c.filter_scale = 1 / (1 - beta3 * std::pow(rates.beta1, static_cast<double>(step - 1)));

  c.decay = decoupled_decay(recipe.weight_decay, rates);
  c.step = -rates.learning_rate;
  return c;
}

}  // namespace shampoo
