// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/block_grid.h"

#include <gtest/gtest.h>

namespace shampoo::checkpoint::test {
namespace {

TEST(ABlockGrid, HasTheBoxesOfACutInItsOrder) {
  for (const grouping::Shape& shape :
       std::vector<grouping::Shape>{{}, {1}, {7}, {8}, {9, 8}, {17, 3}, {2, 9, 5}, {0}, {4, 0, 3}})
    for (const std::int64_t size :
         {std::int64_t{1}, std::int64_t{4}, std::int64_t{8}, grouping::never_cut}) {
      const std::vector<grouping::Box> boxes = grouping::cut(shape, size);
      const BlockGrid grid(shape, size);
      ASSERT_EQ(grid.count(), static_cast<std::int64_t>(boxes.size()));
      for (std::int64_t block = 0; block < grid.count(); ++block) {
        const grouping::Box& box = boxes[static_cast<std::size_t>(block)];
        EXPECT_EQ(grid.box(block), box);
        EXPECT_EQ(grid.find(box), block);
        EXPECT_EQ(grid.overlapping(box), std::vector{block});
      }
    }
}

TEST(ABlockGrid, FindsWhatOverlapsABox) {
  const BlockGrid grid({9, 10}, 4);  // 3 x 3 blocks
  EXPECT_EQ(grid.overlapping({{3, 4}, {2, 4}}), (std::vector<std::int64_t>{1, 4}));
  EXPECT_EQ(grid.overlapping({{0, 0}, {9, 10}}).size(), 9U);
  EXPECT_TRUE(grid.overlapping({{3, 4}, {0, 4}}).empty());
  EXPECT_EQ(grid.find({{3, 4}, {2, 4}}), std::nullopt);
  EXPECT_EQ(grid.find({{4, 4}, {4, 3}}), std::nullopt);
  EXPECT_EQ(grid.find({{12, 0}, {4, 4}}), std::nullopt);
  EXPECT_EQ(grid.find({{4}, {4}}), std::nullopt);
}

}  // namespace
}  // namespace shampoo::checkpoint::test
