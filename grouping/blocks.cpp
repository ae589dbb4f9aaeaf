// SPDX-License-Identifier: Apache-2.0
#include "grouping/blocks.h"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace shampoo::grouping {
namespace {

void check_size(std::int64_t size) {
  if (size < 1)
    throw std::invalid_argument("block size must be at least 1, got " + std::to_string(size));
}

/// Moves `box` on to the next one of its tensor. False after the last.
bool advance(Box& box, const Shape& merged, std::int64_t size) {
  for (std::size_t k = merged.size(); k-- > 0;) {
    if (box.extent[k] < merged[k] - box.offset[k]) {
      box.offset[k] += box.extent[k];
      box.extent[k] = std::min(size, merged[k] - box.offset[k]);
      return true;
    }
    box.offset[k] = 0;
    box.extent[k] = std::min(size, merged[k]);
  }
  return false;
}

}  // namespace

Shape merge_small_dimensions(const Shape& shape, std::int64_t size, int target_order) {
  check_size(size);
  if (target_order < 1)
    throw std::invalid_argument("target order must be at least 1, got " +
                                std::to_string(target_order));
  if (numel(shape) == 0) return {0};
  if (target_order == any_order) return shape;

  Shape sides;
  std::remove_copy(shape.rbegin(), shape.rend(), std::back_inserter(sides), 1);
  if (sides.empty()) return {1};
  Shape merged{sides[0]};
  for (std::size_t n = 1; n < sides.size(); ++n) {
    const bool too_many =
        merged.size() + (sides.size() - n) > static_cast<std::size_t>(target_order);
    if (too_many && merged.back() <= size / sides[n])
      merged.back() *= sides[n];
    else
      merged.push_back(sides[n]);
  }
  std::reverse(merged.begin(), merged.end());
  return merged;
}

std::vector<Box> cut(const Shape& merged, std::int64_t size) {
  check_size(size);
  if (numel(merged) == 0) return {};

  Box box{Shape(merged.size(), 0), merged};
  for (std::int64_t& side : box.extent) side = std::min(side, size);
  std::vector<Box> boxes;
  do boxes.push_back(box);
  while (advance(box, merged, size));
  return boxes;
}

}  // namespace shampoo::grouping
