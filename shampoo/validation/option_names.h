// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "grouping/joined.h"
#include "shampoo/group.h"
#include "shampoo/recipe.h"

namespace shampoo {

// The names of enumerators in the texts of recipes and options, in the order of their declaration.

template <typename Enumeration>
struct OptionNames;
template <>
struct OptionNames<Type> {
  static constexpr std::array<std::string_view, 4> all{"float64", "float32", "bfloat16", "float16"};
};
template <>
struct OptionNames<WeightDecay> {
  static constexpr std::array<std::string_view, 5> all{"decoupled", "l2", "corrected",
                                                       "independent", "plain"};
};
template <>
struct OptionNames<Arithmetic> {
  static constexpr std::array<std::string_view, 2> all{"float32", "float64"};
};
template <>
struct OptionNames<SpectralScale> {
  static constexpr std::array<std::string_view, 3> all{"none", "spectral", "match_rms"};
};
template <>
struct OptionNames<MinimaxPrecision> {
  static constexpr std::array<std::string_view, 2> all{"mixed", "accurate"};
};
template <>
struct OptionNames<NonFinite> {
  static constexpr std::array<std::string_view, 3> all{"skip", "error", "ignore"};
};

/// Throws std::invalid_argument that names the field and the enumerators, unless it is one of them.
template <typename Enumeration>
void require_enumerator(const std::string& field, Enumeration value) {
  const auto& names = OptionNames<Enumeration>::all;
  const auto index = static_cast<std::size_t>(value);
  if (index >= names.size())
    throw std::invalid_argument(field + " must be one of " + grouping::joined(names, ", ") +
                                ", got " + std::to_string(index));
}

}  // namespace shampoo
