// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/box.h"

namespace shampoo::grouping {

/// Blocks start at multiples of this many elements in a flat run: 16 bytes in float32.
inline constexpr std::int64_t flat_alignment = 4;

/// Elements from one block of this extent to the next.
std::int64_t flat_stride(const Shape& extent);

/// Blocks of one extent that one rank owns in one virtual group, one after the other, so that one
/// batched call serves them.
struct Stack {
  Shape extent;
  std::vector<int> blocks;  ///< places in the virtual group's list of blocks, ascending

  /// Elements of the rank's flat run before this stack. Block i of the stack starts at
  /// offset + i * flat_stride(extent).
  std::int64_t offset = 0;

  bool operator==(const Stack&) const = default;
};

/// The stacks of every rank, in the order in which they lie in its flat run: the extents with
/// most elements first, then descending. The blocks of a rank fill its flat run from 0 on without
/// a gap but what the alignment takes. Block b has the extent extents[b], which must outlive the
/// call only, and the owner owners[b] in [0, ranks).
std::vector<std::vector<Stack>> stack(std::span<const Shape* const> extents,
                                      std::span<const int> owners, int ranks);

}  // namespace shampoo::grouping
