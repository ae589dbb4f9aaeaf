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

/// The block size that cuts nothing.
inline constexpr std::int64_t never_cut = std::numeric_limits<std::int64_t>::max();

/// The target order that leaves every shape as it is.
inline constexpr int any_order = std::numeric_limits<int>::max();

/// The product of the sides; 1 for a scalar. Throws std::invalid_argument for a negative side or
/// a product beyond 2^63 - 1.
std::int64_t numel(const Shape& shape);

/// A part of a tensor: where it starts and how far it reaches, one number per side.
struct Box {
  Shape offset;
  Shape extent;

  auto operator<=>(const Box&) const = default;
};

/// Joins neighbouring sides of a tensor whose product is at most `size`, from the last side to
/// the first, as long as more than `target_order` sides are left. Sides of 1 vanish, and a tensor
/// of one element becomes {1}; under any_order the shape stays as it is. An empty tensor becomes
/// {0}. The elements keep their order in row-major storage. Throws std::invalid_argument for
/// size < 1, target_order < 1, and where numel() throws.
Shape merge_small_dimensions(const Shape& shape, std::int64_t size, int target_order);

/// Cuts a tensor into boxes with no side longer than `size`: pieces of exactly `size` along each
/// side and the rest last; the boxes are in row-major order. An empty tensor gives no box, a
/// scalar one box without sides. Throws std::invalid_argument for size < 1, and where numel()
/// throws.
std::vector<Box> cut(const Shape& merged, std::int64_t size);

}  // namespace shampoo::grouping
