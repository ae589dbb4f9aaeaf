// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/validation/rate_ranges.h"

namespace shampoo::test {

/// `rates`, but those that the recipe does not read at their defaults.
inline Rates read_rates(const Recipe& recipe, const Rates& rates) {
  return RateRanges(recipe).read_from(rates, {});
}

}  // namespace shampoo::test
