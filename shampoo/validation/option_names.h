// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

#include "shampoo/recipe.h"

namespace shampoo {

// The names of enumerators in the texts of recipes, in the order of their declaration.

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

}  // namespace shampoo
