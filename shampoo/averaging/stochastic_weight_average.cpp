// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/stochastic_weight_average.h"

namespace shampoo {

void check(const StochasticWeightAverage& kind, const Recipe&, const Checks& checks) {
  checks.require(kind.first >= 0, "recipe.value_averaging.first", ">= 0", kind.first);
  checks.require(kind.every >= 1, "recipe.value_averaging.every", ">= 1", kind.every);
}

double new_value_weight(const StochasticWeightAverage& kind, std::int64_t step) {
  if (step < kind.first) return 1;
  if ((step - kind.first) % kind.every != 0) return 0;
  // A <- (j A + W) / (j + 1), with j values so far
  return 1 / (static_cast<double>((step - kind.first) / kind.every) + 1);
}

bool replaces_values(const StochasticWeightAverage&) { return false; }

}  // namespace shampoo
