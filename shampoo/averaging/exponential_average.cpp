// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/exponential_average.h"

#include <cmath>

namespace shampoo {

void check(const ExponentialAverage& kind, const Recipe&, const Checks& checks) {
  checks.unit_open("recipe.value_averaging.decay", kind.decay);
  checks.require(kind.every >= 1, "recipe.value_averaging.every", ">= 1", kind.every);
  checks.require(kind.start >= 0, "recipe.value_averaging.start", ">= 0", kind.start);
}

double new_value_weight(const ExponentialAverage& kind, std::int64_t step) {
  if (step <= kind.start) return 1;
  if ((step - kind.start) % kind.every != 0) return 0;
  if (!kind.debias) return 1 - kind.decay;
  // (1 - decay) / (1 - decay^n): weights of the n values so far, decay^(n - k), add up to this
  const auto n = static_cast<double>((step - kind.start) / kind.every);
  return (1 - kind.decay) / (1 - std::pow(kind.decay, n));
}

bool replaces_values(const ExponentialAverage&) { return false; }

}  // namespace shampoo
