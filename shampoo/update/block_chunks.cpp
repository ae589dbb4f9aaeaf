// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_chunks.h"

#include <algorithm>

namespace shampoo {

std::vector<std::vector<OwnedBlock>> chunks_of(const std::vector<OwnedBlock>& blocks,
                                               std::int64_t end, std::int64_t most) {
  const std::int64_t limit = std::max<std::int64_t>(most, 1);
  const std::int64_t runs = std::max<std::int64_t>((end + limit - 1) / limit, 1);
  const std::int64_t usual = (end + runs - 1) / runs;

  std::vector<std::vector<OwnedBlock>> chunks;
  OwnedBlock first;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const std::int64_t block_end = b + 1 < blocks.size() ? blocks[b + 1].flat : end;
    if (b == 0 || block_end - first.flat > limit || blocks[b].flat - first.flat >= usual) {
      first = blocks[b];
      chunks.emplace_back();
    }
    OwnedBlock& block = chunks.back().emplace_back(blocks[b]);
    block.flat -= first.flat;
    block.stack -= first.stack;
    if (block.stack == 0) block.in_stack -= first.in_stack;
  }
  return chunks;
}

}  // namespace shampoo
