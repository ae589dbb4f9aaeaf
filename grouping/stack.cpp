// SPDX-License-Identifier: Apache-2.0
#include "grouping/stack.h"

#include <functional>
#include <map>
#include <utility>

namespace shampoo::grouping {

std::int64_t flat_stride(const Shape& extent) {
  return (numel(extent) + flat_alignment - 1) / flat_alignment * flat_alignment;
}

std::vector<std::vector<Stack>> stack(std::span<const Shape* const> extents,
                                      std::span<const int> owners, int ranks) {
  using Key = std::pair<std::int64_t, Shape>;
  std::vector<std::map<Key, std::vector<int>, std::greater<>>> blocks(ranks);
  for (int b = 0; b < static_cast<int>(extents.size()); ++b)
    blocks[owners[b]][{numel(*extents[b]), *extents[b]}].push_back(b);

  std::vector<std::vector<Stack>> stacks(ranks);
  for (int r = 0; r < ranks; ++r) {
    std::int64_t offset = 0;
    for (auto& [key, members] : blocks[r]) {
      const std::int64_t elements =
          flat_stride(key.second) * static_cast<std::int64_t>(members.size());
      stacks[r].push_back({key.second, std::move(members), offset});
      offset += elements;
    }
  }
  return stacks;
}

}  // namespace shampoo::grouping
