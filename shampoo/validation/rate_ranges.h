// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "shampoo/group.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

inline constexpr std::size_t rate_count = [] {
  std::size_t count = 0;
  const Rates rates;
  for_each_field([&](std::string_view, const auto&) { ++count; }, rates);
  return count;
}();

/// Which rates a recipe reads, and their accepted values.
class RateRanges {
 public:
  explicit RateRanges(const Recipe& recipe);

  /// Throws std::invalid_argument that names group (see title_of()), rate and accepted range: for a
  /// value out of range, and for a rate that the recipe does not read and that is not at its
  /// default. For the rates of one parameter also its name. Does not allocate unless it throws.
  void check(const Rates& rates, std::string_view group, std::string_view parameter = {}) const;
  /// The same for all rates of a group.
  void check(const Group& group) const;

  bool reads(std::string_view rate) const;
  /// `rates`, but those that the recipe does not read from `unread`.
  Rates read_from(const Rates& rates, const Rates& unread) const;
  /// Names of the rates that the recipe does not read.
  std::vector<std::string_view> unread() const;

 private:
  [[noreturn]] void fail_unread(std::size_t rate, std::optional<double> value,
                                std::optional<double> usual, const Checks& checks) const;

  Arithmetic arithmetic_;
  std::array<RateRange, rate_count> ranges_{};  ///< in the order of for_each_field()
};

}  // namespace shampoo
