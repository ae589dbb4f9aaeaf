// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <vector>

#include "shampoo/validation/rate_ranges.h"

namespace shampoo::test {

/// `rates`, with those that the recipe does not read at their defaults.
inline Rates read_rates(const Recipe& recipe, Rates rates) {
  const RateRanges ranges(recipe);
  const Rates usual_rates;
  std::vector<std::optional<double>> defaults;
  for_each_field([&](std::string_view, const auto& value) { defaults.emplace_back(value); },
                 usual_rates);
  std::size_t i = 0;
  for_each_field(
      [&](std::string_view name, auto& value) {
        const std::optional<double> usual = defaults[i++];
        if (ranges.reads(name)) return;
        if constexpr (std::is_same_v<std::remove_reference_t<decltype(value)>, double>)
          value = *usual;
        else
          value = usual;
      },
      rates);
  return rates;
}

}  // namespace shampoo::test
