// SPDX-License-Identifier: Apache-2.0
#include "grouping/blocks.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <stdexcept>

namespace shampoo::grouping {
namespace {

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

struct Merging {
  Shape shape;
  std::int64_t size;
  int target_order;
  Shape merged;
};

TEST(MergeSmallDimensions, FollowsTheReference) {
  const std::vector<Merging> table = {
      {{32, 3, 64, 64}, 10, 1, {32, 3, 64, 64}}, {{32, 3, 64, 64}, 200, 1, {32, 192, 64}},
      {{32, 3, 64, 64}, 1024, 2, {32, 192, 64}}, {{32, 3, 64, 64}, 8192, 1, {96, 4096}},
      {{32, 3, 64, 64}, 1000000, 1, {393216}},   {{32, 3, 64, 64}, 1000000, 2, {32, 12288}},
      {{32, 3, 64, 64}, 8192, 3, {32, 3, 4096}}, {{32, 3, 64, 64}, 8192, 4, {32, 3, 64, 64}},
      {{768, 3, 16, 16}, 1024, 1, {768, 768}},   {{64, 3, 7, 7}, 1024, 1, {64, 147}},
  };
  for (const Merging& row : table)
    EXPECT_EQ(merge_small_dimensions(row.shape, row.size, row.target_order), row.merged)
        << "size " << row.size << ", target order " << row.target_order;
}

TEST(MergeSmallDimensions, DropsSidesOfOne) {
  const std::vector<Merging> table = {
      {{1, 1, 768}, 1024, 1, {768}},
      {{1, 197, 768}, 1024, 1, {197, 768}},
      {{5, 1, 7}, 10, 1, {5, 7}},
      {{5, 1, 7}, 10, 3, {5, 7}},  // under the target order, and the side of 1 goes all the same
      {{1}, 10, 1, {1}},
      {{1, 1, 1}, 10, 3, {1}},
  };
  for (const Merging& row : table)
    EXPECT_EQ(merge_small_dimensions(row.shape, row.size, row.target_order), row.merged);
}

TEST(MergeSmallDimensions, MergesUpToTheSizeAndNotBeyond) {
  EXPECT_EQ(merge_small_dimensions({7, 11}, 77, 1), (Shape{77}));
  EXPECT_EQ(merge_small_dimensions({7, 11}, 76, 1), (Shape{7, 11}));
  // From the last side on: 2 * 3 fits, and 5 * 6 no longer does.
  EXPECT_EQ(merge_small_dimensions({5, 2, 3}, 10, 1), (Shape{5, 6}));
}

TEST(MergeSmallDimensions, TurnsAScalarIntoOneElement) {
  EXPECT_EQ(merge_small_dimensions({}, 1024, 1), (Shape{1}));
}

TEST(MergeSmallDimensions, TurnsAnEmptyTensorIntoOneEmptySide) {
  EXPECT_EQ(merge_small_dimensions({0}, 1024, 1), (Shape{0}));
  EXPECT_EQ(merge_small_dimensions({3, 0, 5}, 1024, 2), (Shape{0}));
  EXPECT_EQ(merge_small_dimensions({huge, huge, 0}, 1024, 1), (Shape{0}));
  EXPECT_EQ(merge_small_dimensions({3, 0, 5}, 1024, any_order), (Shape{0}));
}

TEST(MergeSmallDimensions, LeavesTheShapeAloneForAnyOrder) {
  EXPECT_EQ(merge_small_dimensions({1, 4, 1, 9}, 1024, any_order), (Shape{1, 4, 1, 9}));
  EXPECT_EQ(merge_small_dimensions({}, 1024, any_order), (Shape{}));
}

TEST(MergeSmallDimensions, MergesEverythingWhereNothingIsCut) {
  EXPECT_EQ(merge_small_dimensions({32, 3, 64, 64}, never_cut, 1), (Shape{393216}));
  EXPECT_EQ(merge_small_dimensions({32, 3, 64, 64}, never_cut, 2), (Shape{32, 12288}));
}

TEST(MergeSmallDimensions, DoesNotOverflowNextToTheLargestSize) {
  EXPECT_EQ(merge_small_dimensions({2, huge / 2}, huge - 2, 1), (Shape{2, huge / 2}));
  EXPECT_EQ(merge_small_dimensions({2, huge / 2}, huge - 1, 1), (Shape{huge - 1}));
}

TEST(MergeSmallDimensions, RefusesWhatIsNoShapeSizeOrOrder) {
  EXPECT_THROW(merge_small_dimensions({3, -1}, 10, 1), std::invalid_argument);
  EXPECT_THROW(merge_small_dimensions({-1, 0}, 10, 1), std::invalid_argument);
  EXPECT_THROW(merge_small_dimensions({huge, 2}, 10, 1), std::invalid_argument);
  EXPECT_THROW(merge_small_dimensions({3}, 0, 1), std::invalid_argument);
  EXPECT_THROW(merge_small_dimensions({3}, -5, 1), std::invalid_argument);
  EXPECT_THROW(merge_small_dimensions({3}, 10, 0), std::invalid_argument);
}

TEST(Cut, LeavesTheRestForTheLastBlock) {
  const std::vector<Box> expected = {{{0}, {4}}, {{4}, {4}}, {{8}, {1}}};
  EXPECT_EQ(cut({9}, 4), expected);
}

TEST(Cut, OrdersBoxesWithTheFirstSideOutermost) {
  const std::vector<Box> expected = {{{0, 0}, {2, 2}}, {{0, 2}, {2, 2}}, {{0, 4}, {2, 1}},
                                     {{2, 0}, {1, 2}}, {{2, 2}, {1, 2}}, {{2, 4}, {1, 1}}};
  EXPECT_EQ(cut({3, 5}, 2), expected);
}

TEST(Cut, LeavesATensorWholeThatFits) {
  EXPECT_EQ(cut({4, 3}, 4), (std::vector<Box>{{{0, 0}, {4, 3}}}));
  EXPECT_EQ(cut({4, 3}, never_cut), (std::vector<Box>{{{0, 0}, {4, 3}}}));
  EXPECT_EQ(cut({1}, 1), (std::vector<Box>{{{0}, {1}}}));
}

TEST(Cut, GivesAScalarOneBoxWithoutSides) { EXPECT_EQ(cut({}, 8), (std::vector<Box>{{{}, {}}})); }

TEST(Cut, GivesAnEmptyTensorNoBox) {
  EXPECT_TRUE(cut({0}, 8).empty());
  EXPECT_TRUE(cut({3, 0, 2}, 8).empty());
}

TEST(Cut, DoesNotOverflowNextToTheLargestSide) {
  const std::vector<Box> boxes = cut({huge}, huge - 1);

  ASSERT_EQ(boxes.size(), 2u);
  EXPECT_EQ(boxes[1], (Box{{huge - 1}, {1}}));
}

TEST(Cut, RefusesWhatIsNoShapeOrSize) {
  EXPECT_THROW(cut({-1}, 8), std::invalid_argument);
  EXPECT_THROW(cut({huge, 2}, 8), std::invalid_argument);
  EXPECT_THROW(cut({3}, 0), std::invalid_argument);
}

/// The number of boxes that hold each element, in row-major order.
std::vector<int> coverage(const Shape& shape, const std::vector<Box>& boxes) {
  std::vector<int> counts;
  Shape index(shape.size(), 0);
  for (std::int64_t e = 0; e < numel(shape); ++e) {
    std::int64_t rest = e;
    for (std::size_t k = shape.size(); k-- > 0; rest /= shape[k]) index[k] = rest % shape[k];
    int count = 0;
    for (const Box& box : boxes) {
      bool inside = true;
      for (std::size_t k = 0; k < shape.size(); ++k)
        inside = inside && index[k] >= box.offset[k] && index[k] - box.offset[k] < box.extent[k];
      count += inside;
    }
    counts.push_back(count);
  }
  return counts;
}

TEST(Cut, PutsEveryElementOfRandomTensorsIntoExactlyOneBox) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 3000; ++trial) {
    Shape shape(random() % 5);
    for (std::int64_t& side : shape) side = static_cast<std::int64_t>(random() % 6);
    const std::int64_t size = 1 + static_cast<std::int64_t>(random() % 6);
    const int order = 1 + static_cast<int>(random() % 4);

    const Shape merged = merge_small_dimensions(shape, size, order);
    const std::vector<Box> boxes = cut(merged, size);

    EXPECT_EQ(numel(merged), numel(shape));
    EXPECT_EQ(coverage(merged, boxes), std::vector<int>(numel(shape), 1)) << "trial " << trial;
    for (const Box& box : boxes)
      for (std::int64_t side : box.extent) EXPECT_LE(side, size);
  }
}

}  // namespace
}  // namespace shampoo::grouping
