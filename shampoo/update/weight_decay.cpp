// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/weight_decay.h"

namespace shampoo {

double l2_decay(WeightDecay kind, const Rates& rates) {
  return kind == WeightDecay::l2 ? rates.weight_decay : 0;
}

double decoupled_decay(WeightDecay kind, const Rates& rates, double learning_rate) {
  switch (kind) {
    case WeightDecay::l2:
      return 0;
    case WeightDecay::decoupled:
      return rates.weight_decay;
    case WeightDecay::corrected:
      return rates.weight_decay * rates.learning_rate / rates.peak_learning_rate.value();
    case WeightDecay::independent:
      return rates.weight_decay / rates.peak_learning_rate.value();
    case WeightDecay::plain:
      return learning_rate > 0 ? rates.weight_decay / learning_rate : 0;
  }
  return 0;
}

}  // namespace shampoo
