// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>

namespace shampoo::grouping {

/// The texts of a list, with `between` between each two: of numbers in decimal, of others what
/// `text_of` gives for them.
template <typename List, typename TextOf = std::identity>
std::string joined(const List& list, std::string_view between, const TextOf& text_of = {}) {
  std::string all;
  bool first = true;
  for (const auto& item : list) {
    if (!first) all += between;
    first = false;
    if constexpr (std::integral<std::remove_cvref_t<decltype(text_of(item))>>)
      all += std::to_string(text_of(item));
    else
      all += text_of(item);
  }
  return all;
}

}  // namespace shampoo::grouping
