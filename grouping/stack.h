// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "grouping/blocks.h"

namespace shampoo::grouping {

/// Blocks of one extent that one rank owns in one virtual group, back to back, so that one
/// batched call serves them.
struct Stack {
  Shape extent;
  std::vector<int> blocks;  ///< places in the virtual group's list of blocks, ascending

  /// Elements of the rank's flat run before this stack. Block i of the stack starts at
  /// offset + i * numel(extent).
  std::int64_t offset = 0;

  bool operator==(const Stack&) const = default;
};

/// The stacks of every rank, in the order in which they lie in its flat run: the extents with
/// most elements first, then descending. A flat run is dense: the blocks of a rank fill it from
/// 0 on without a gap. Block b has the extent extents[b], which must outlive the call only, and
/// the owner owners[b] in [0, ranks).
std::vector<std::vector<Stack>> stack(std::span<const Shape* const> extents,
                                      std::span<const int> owners, int ranks);

}  // namespace shampoo::grouping
