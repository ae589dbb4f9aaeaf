// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "grouping/box.h"

namespace shampoo::grouping {

/// Joins neighbouring sides of a tensor whose product is at most `size`, from the last side to
/// the first, as long as more than `target_order` sides are left. Sides of 1 vanish, and a tensor
/// of one element becomes {1}; under any_order the shape stays as it is. An empty tensor becomes
/// {0}. The elements keep their order in row-major storage. Throws std::invalid_argument for
/// size < 1, target_order < 1, and where numel() throws.
Shape merge_small_dimensions(const Shape& shape, std::int64_t size, int target_order);

/// Cuts a tensor into boxes with no side longer than `size`: of exactly `size` along each
/// side and the rest last; the boxes are in row-major order. An empty tensor gives no box, a
/// scalar one box without sides. Throws std::invalid_argument for size < 1, and where numel()
/// throws.
std::vector<Box> cut(const Shape& merged, std::int64_t size);

}  // namespace shampoo::grouping
