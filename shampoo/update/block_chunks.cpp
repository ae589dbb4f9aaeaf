// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_chunks.h"

#include <algorithm>

namespace shampoo {

std::vector<Chunk> cut_into_chunks(std::vector<OwnedBlock>& blocks, std::int64_t end,
                                   std::int64_t most) {
  const std::int64_t limit = std::max<std::int64_t>(most, 1);
  const std::int64_t fewest = std::max<std::int64_t>((end + limit - 1) / limit, 1);
  const std::int64_t usual = (end + fewest - 1) / fewest;

  std::vector<Chunk> chunks(1);
  int stack = -1, planned_stack = -1;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    OwnedBlock& block = blocks[b];
    const std::int64_t block_end = b + 1 < blocks.size() ? blocks[b + 1].flat : end;
    const std::int64_t first = chunks.back().first_element;
    const bool begins_chunk = b > 0 && (block_end - first > limit || block.flat - first >= usual);
    const bool begins_stack = begins_chunk || block.stack != planned_stack;
    planned_stack = block.stack;
    stack += begins_stack;
    if (begins_chunk)
      chunks.push_back({.first_block = b,
                        .first_stack = static_cast<std::size_t>(stack),
                        .first_element = block.flat});
    block.stack = stack;
    block.in_stack = begins_stack ? 0 : blocks[b - 1].in_stack + 1;
    chunks.back().end_block = b + 1;
    chunks.back().end_stack = static_cast<std::size_t>(stack) + 1;
    chunks.back().end_element = block_end;
  }
  return chunks;
}

std::int64_t direction_limit(const std::optional<std::int64_t>& direction_bytes,
                             std::int64_t state_bytes) {
  // With dense roots and tables a quarter of the state, where solvers need no more than P.
  constexpr std::int64_t share = 7, least = std::int64_t{1} << 20;
  return direction_bytes.value_or(std::max(state_bytes / share, least));
}

}  // namespace shampoo
