// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/block_grid.h"

#include <algorithm>

namespace shampoo::checkpoint {

BlockGrid::BlockGrid(const grouping::Shape& merged, std::int64_t size)
    : merged_(merged), size_(size) {
  for (const std::int64_t side : merged) {
    cells_.push_back(side / size + (side % size != 0 ? 1 : 0));
    count_ *= cells_.back();
  }
}

grouping::Box BlockGrid::box(std::int64_t block) const {
  const std::size_t order = merged_.size();
  grouping::Box box{grouping::Shape(order), grouping::Shape(order)};
  for (std::size_t k = order; k-- > 0; block /= cells_[k]) {
    box.offset[k] = block % cells_[k] * size_;
    box.extent[k] = std::min(size_, merged_[k] - box.offset[k]);
  }
  return box;
}

std::optional<std::int64_t> BlockGrid::find(const grouping::Box& box) const {
  if (box.offset.size() != merged_.size() || count_ == 0) return std::nullopt;
  std::int64_t block = 0;
  for (std::size_t k = 0; k < merged_.size(); ++k) {
    if (box.offset[k] < 0 || box.offset[k] >= merged_[k]) return std::nullopt;
    block = block * cells_[k] + box.offset[k] / size_;
  }
  if (this->box(block) != box) return std::nullopt;
  return block;
}

std::vector<std::int64_t> BlockGrid::overlapping(const grouping::Box& box) const {
  std::vector<std::int64_t> blocks{0};
  for (std::size_t k = 0; k < merged_.size(); ++k) {
    if (box.extent[k] == 0) return {};
    const std::int64_t first = box.offset[k] / size_;
    const std::int64_t last = (box.offset[k] + box.extent[k] - 1) / size_;
    std::vector<std::int64_t> finer;
    for (const std::int64_t block : blocks)
      for (std::int64_t cell = first; cell <= last; ++cell)
        finer.push_back(block * cells_[k] + cell);
    blocks = std::move(finer);
  }
  return count_ == 0 ? std::vector<std::int64_t>() : blocks;
}

}  // namespace shampoo::checkpoint
