// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grouping/blocks.h"

namespace shampoo::checkpoint {

/// The blocks of a parameter, by their number: those of grouping::cut(), in its order, without a
/// list of them.
class BlockGrid {
 public:
  /// `merged` has at most 2^63 - 1 elements, and `size` is >= 1.
  BlockGrid(const grouping::Shape& merged, std::int64_t size);

  std::int64_t count() const { return count_; }
  grouping::Box box(std::int64_t block) const;
  /// The block with this box, if there is one.
  std::optional<std::int64_t> find(const grouping::Box& box) const;
  /// The blocks that have elements in common with a box of the parameter, in their order.
  std::vector<std::int64_t> overlapping(const grouping::Box& box) const;

 private:
  grouping::Shape merged_, cells_;  ///< cells: blocks along each side
  std::int64_t size_, count_ = 1;
};

}  // namespace shampoo::checkpoint
