// SPDX-License-Identifier: Apache-2.0
#include "grouping/stack.h"

#include <gtest/gtest.h>

#include <random>

namespace shampoo::grouping {
namespace {

std::vector<std::vector<Stack>> stack_of(const std::vector<Shape>& extents,
                                         const std::vector<int>& owners, int ranks) {
  std::vector<const Shape*> pointers;
  pointers.reserve(extents.size());
  for (const Shape& extent : extents) pointers.push_back(&extent);
  return stack(pointers, owners, ranks);
}

TEST(Stack, HoldsBlocksOfOneExtentInTheirOrder) {
  const auto stacks = stack_of({{2, 3}, {4}, {2, 3}, {2, 3}}, {0, 0, 0, 0}, 1);

  const std::vector<std::vector<Stack>> expected = {{{{2, 3}, {0, 2, 3}, 0}, {{4}, {1}, 24}}};
  EXPECT_EQ(stacks, expected);
}

TEST(Stack, PutsTheLargestExtentFirst) {
  const auto stacks = stack_of({{5}, {2, 3}, {3, 2}, {}, {7}, {6}}, std::vector<int>(6, 0), 1);

  const std::vector<std::vector<Stack>> expected = {{{{7}, {4}, 0},
                                                     {{6}, {5}, 8},
                                                     {{3, 2}, {2}, 16},
                                                     {{2, 3}, {1}, 24},
                                                     {{5}, {0}, 32},
                                                     {{}, {3}, 40}}};
  EXPECT_EQ(stacks, expected);
}

TEST(Stack, KeepsRanksApart) {
  const auto stacks = stack_of({{2}, {2}, {2}}, {2, 0, 2}, 3);

  const std::vector<std::vector<Stack>> expected = {{{{2}, {1}, 0}}, {}, {{{2}, {0, 2}, 0}}};
  EXPECT_EQ(stacks, expected);
}

TEST(Stack, OfNothingIsNothingOnEveryRank) {
  EXPECT_EQ(stack_of({}, {}, 2), (std::vector<std::vector<Stack>>(2)));
}

TEST(FlatStride, IsTheNextMultipleOf16BytesInFloat32) {
  EXPECT_EQ(flat_stride({}), 4);
  EXPECT_EQ(flat_stride({4}), 4);
  EXPECT_EQ(flat_stride({5}), 8);
  EXPECT_EQ(flat_stride({7, 9}), 64);
  EXPECT_EQ(flat_stride({1024, 1024}), 1024 * 1024);
}

TEST(Stack, FillsTheFlatRunOfEveryRankWithoutOverlapOrOtherGaps) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 1000; ++trial) {
    const int ranks = 1 + static_cast<int>(random() % 5);
    std::vector<Shape> extents(random() % 30);
    std::vector<int> owners, seen(extents.size(), 0);
    for (Shape& extent : extents) {
      extent.resize(random() % 3);
      for (std::int64_t& side : extent) side = 1 + static_cast<std::int64_t>(random() % 3);
      owners.push_back(static_cast<int>(random() % ranks));
    }

    const auto stacks = stack_of(extents, owners, ranks);

    for (int r = 0; r < ranks; ++r) {
      std::int64_t end = 0;
      for (const Stack& stack : stacks[r]) {
        EXPECT_EQ(stack.offset, end);
        end += flat_stride(stack.extent) * static_cast<std::int64_t>(stack.blocks.size());
        for (int b : stack.blocks) {
          EXPECT_EQ(extents[b], stack.extent);
          EXPECT_EQ(owners[b], r);
          ++seen[b];
        }
      }
    }
    EXPECT_EQ(seen, std::vector<int>(extents.size(), 1)) << "trial " << trial;
  }
}

}  // namespace
}  // namespace shampoo::grouping
