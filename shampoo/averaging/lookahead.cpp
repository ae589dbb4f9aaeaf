// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/lookahead.h"

namespace shampoo {

void check(const Lookahead& kind, const Recipe& recipe, const Checks& checks) {
  checks.require(kind.every >= 1, "recipe.value_averaging.every", ">= 1", kind.every);
  checks.unit_positive("recipe.value_averaging.pull", kind.pull);
  // Otherwise W + (A - W), rounded, would take the place of A.
  checks.require(recipe.communication.values, "recipe.communication.values",
                 "true with lookahead, which sends slow weights", std::string_view("false"));
}

double new_value_weight(const Lookahead& kind, std::int64_t step) {
  return step % kind.every == 0 ? kind.pull : 0;
}

bool replaces_values(const Lookahead&) { return true; }

}  // namespace shampoo
