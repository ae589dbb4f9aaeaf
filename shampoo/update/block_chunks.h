// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Blocks of a rank in one virtual group whose directions are in memory together, and the stacks
/// that they fill: from the first one to before the end.
struct Chunk {
  std::size_t first_block = 0, end_block = 0;
  std::size_t first_stack = 0, end_stack = 0;
  std::int64_t first_element = 0, end_element = 0;  ///< in flat slots

  std::int64_t elements() const { return end_element - first_element; }
  /// The chunk's part of what there is one of for every stack of the virtual group.
  template <typename T>
  std::span<const T> of(const std::vector<T>& stacks) const {
    return std::span(stacks).subspan(first_stack, end_stack - first_stack);
  }
};

/// Cuts a rank's blocks of one virtual group, in flat order, into chunks of at most `most`
/// elements, which are about equally long; a longer block is a chunk of its own. A stack that two
/// chunks would share becomes two: the blocks count them anew. At least one chunk, which may be
/// empty. `end`: elements of the flat slots.
std::vector<Chunk> cut_into_chunks(std::vector<OwnedBlock>& blocks, std::int64_t end,
                                   std::int64_t most);

/// Bytes of directions, and of what a backend needs beside them, that are in memory at a time:
/// OptimizerOptions::direction_bytes, or what follows from a rank's state.
std::int64_t direction_limit(const std::optional<std::int64_t>& direction_bytes,
                             std::int64_t state_bytes);

}  // namespace shampoo
