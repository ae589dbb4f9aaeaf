// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace shampoo::grouping {

/// The sides of a tensor, outermost first. Each is >= 0; a scalar has none.
using Shape = std::vector<std::int64_t>;

/// The product of the sides; 1 for a scalar. Throws std::invalid_argument for a negative side or
/// a product beyond 2^63 - 1.
std::int64_t numel(std::span<const std::int64_t> shape);

/// A part of a tensor: its first element and its length, one number per side.
struct Box {
  Shape offset;
  Shape extent;

  auto operator<=>(const Box&) const = default;
};

/// The block size that cuts nothing.
inline constexpr std::int64_t never_cut = std::numeric_limits<std::int64_t>::max();

/// The target order that leaves every shape as it is.
inline constexpr int any_order = std::numeric_limits<int>::max();

}  // namespace shampoo::grouping
