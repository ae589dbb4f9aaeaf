// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/coefficients.h"

#include <cmath>

#include "shampoo/update/weight_decay.h"

namespace shampoo {

kernels::Coefficients coefficients_of(const Recipe& recipe, const Rates& rates, std::int64_t step) {
  const double beta3 = rates.beta3.value_or(rates.beta1);
  kernels::Coefficients c;
  c.gradient_sign = recipe.maximize ? -1 : 1;
  c.l2 = l2_decay(recipe.weight_decay, rates);

  // F = lerp(M, G, 1 - beta3) / (1 - beta3 beta1^(t - 1)); F = G where beta1 = 0
  if (recipe.filter) {
    c.first_weight = 1 - rates.beta1;
    c.filter_weight = 1 - beta3;
  }
  if (recipe.filter && recipe.bias_correction && rates.beta1 != 0)
    c.filter_scale = 1 / (1 - beta3 * std::pow(rates.beta1, static_cast<double>(step - 1)));

  // learning_rate_decay is 0 but for AdaGrad.
  const double learning_rate =
      rates.learning_rate / (1 + static_cast<double>(step - 1) * rates.learning_rate_decay);
  c.decay = decoupled_decay(recipe.weight_decay, rates, learning_rate);
  c.step = -learning_rate;
  return c;
}

}  // namespace shampoo
