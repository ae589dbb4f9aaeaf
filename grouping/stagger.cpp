// SPDX-License-Identifier: Apache-2.0
#include "grouping/stagger.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

namespace shampoo::grouping {
namespace {

/// The phases of one interval that have blocks: the first ones.
struct Phases {
  std::vector<std::int64_t> works;
  std::map<std::int64_t, std::vector<std::int64_t>> counts;  ///< of blocks of a work

  std::int64_t next(std::int64_t work, std::int64_t interval) {
    const auto used = static_cast<std::int64_t>(works.size());
    if (used < interval) return used;
    std::vector<std::int64_t>& count = counts[work];
    count.resize(works.size());
    std::int64_t best = 0;
    for (std::int64_t p = 1; p < used; ++p)
      if (std::tie(count[p], works[p]) < std::tie(count[best], works[best])) best = p;
    return best;
  }

  void add(std::int64_t work, std::int64_t phase) {
    const auto end = static_cast<std::size_t>(phase) + 1;
    std::vector<std::int64_t>& count = counts[work];
    works.resize(std::max(works.size(), end));
    count.resize(std::max(count.size(), end));
    works[phase] += work;
    ++count[phase];
  }
};

}  // namespace

void stagger(std::span<BlockRefresh> blocks, std::size_t known) {
  std::map<std::int64_t, Phases> intervals;
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    BlockRefresh& block = blocks[b];
    if (block.work == 0) {
      block.phase = 0;
      continue;
    }
    Phases& phases = intervals[block.interval];
    if (b >= known) block.phase = phases.next(block.work, block.interval);
    phases.add(block.work, block.phase);
  }
}

}  // namespace shampoo::grouping
