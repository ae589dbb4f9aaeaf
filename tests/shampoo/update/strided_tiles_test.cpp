// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/strided_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>

namespace shampoo::test {
namespace {

using grouping::Shape;
using kernels::Tile;

struct Case {
  Shape shape;
  std::vector<std::int64_t> value, gradient;  // strides
  std::int64_t size = 8;
  int target_order = 1;
};

/// Every element of the tensor must lie in one tile, where value and gradient have their own
/// offsets, and flat slots hold a block row by row.
void expect_tiles_cover(const Case& c) {
  const Shape merged = grouping::merge_small_dimensions(c.shape, c.size, c.target_order);
  const StridedTensor tensor(c.shape, merged, c.value, c.gradient);
  std::map<std::int64_t, std::int64_t> gradient_of_value;
  Shape index(c.shape.size(), 0);
  for (std::int64_t i = 0; i < grouping::numel(c.shape); ++i) {
    std::int64_t value = 0, gradient = 0;
    for (std::size_t k = c.shape.size(), rest = static_cast<std::size_t>(i); k-- > 0;) {
      const std::size_t at = rest % static_cast<std::size_t>(c.shape[k]);
      rest /= static_cast<std::size_t>(c.shape[k]);
      value += static_cast<std::int64_t>(at) * c.value[k];
      gradient += static_cast<std::int64_t>(at) * c.gradient[k];
    }
    gradient_of_value[value] = gradient;
  }

  std::map<std::int64_t, std::int64_t> seen;
  for (const grouping::Box& box : grouping::cut(merged, c.size)) {
    kernels::Block block;
    std::vector<Tile> tiles;
    tensor.append(box, 100, block, tiles);
    ASSERT_EQ(block.elements, grouping::numel(box.extent));
    std::int64_t flat = 100;
    for (const Tile& tile : tiles) {
      ASSERT_EQ(tile.flat, flat);
      ASSERT_LE(std::int64_t{tile.rows} * tile.columns, kernels::tile_elements);
      flat += std::int64_t{tile.rows} * tile.columns;
      for (std::int64_t r = 0; r < tile.rows; ++r)
        for (std::int64_t x = 0; x < tile.columns; ++x) {
          const std::int64_t value = tile.value + r * tile.value_row + x * tile.value_column;
          ASSERT_TRUE(
              seen.emplace(value, tile.gradient + r * tile.gradient_row + x * tile.gradient_column)
                  .second);
        }
    }
    ASSERT_EQ(flat, 100 + block.elements);
  }
  EXPECT_EQ(seen, gradient_of_value);
}

TEST(Tiles, CoverRandomTensorsInAnyLayout) {
  std::mt19937_64 random(7);
  const auto below = [&](int n) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
  };
  for (int trial = 0; trial < 3000; ++trial) {
    Case c;
    const std::size_t order = static_cast<std::size_t>(below(6));
    for (std::size_t k = 0; k < order; ++k) c.shape.push_back(1 + below(7));
    const auto strides = [&] {
      // A random order of the dimensions in memory, with gaps.
      std::vector<std::size_t> by_speed(order);
      std::iota(by_speed.begin(), by_speed.end(), std::size_t{0});
      if (below(2) == 0) std::reverse(by_speed.begin(), by_speed.end());
      if (below(3) == 0) std::shuffle(by_speed.begin(), by_speed.end(), random);
      std::vector<std::int64_t> result(order, 0);
      std::int64_t stride = 1;
      for (const std::size_t k : by_speed) {
        result[k] = stride;
        stride *= c.shape[k] + (below(4) == 0 ? below(3) : 0);
      }
      return result;
    };
    c.value = strides();
    c.gradient = strides();
    c.size = 1 + below(30);
    c.target_order = below(5) == 0 ? grouping::any_order : 1 + static_cast<int>(below(4));
    ASSERT_NO_FATAL_FAILURE(expect_tiles_cover(c)) << "trial " << trial;
  }
}

TEST(Tiles, AreCutAtTheirLargestSize) {
  const std::int64_t n = kernels::tile_elements;
  expect_tiles_cover({{n + 1}, {1}, {1}, grouping::never_cut, 1});
  expect_tiles_cover({{3, n + 5}, {n + 7, 1}, {n + 5, 1}, grouping::never_cut, 2});
  expect_tiles_cover({{n / 2 + 1, 3}, {3, 1}, {1, n}, grouping::never_cut, 2});
}

TEST(Tiles, OfLongBlocksWithOddRowsStartAtMultiplesOfEightElements) {
  for (const std::int64_t columns : {1, 3, 81, 771, 1022, 1023}) {
    const Shape shape{1000, columns};
    // Rows with a gap, so that they are not one.
    const StridedTensor tensor(shape, shape, std::vector<std::int64_t>{columns + 1, 1},
                               std::vector<std::int64_t>{columns + 1, 1});
    kernels::Block block;
    std::vector<Tile> tiles;

    tensor.append({{0, 0}, shape}, 4, block, tiles);

    for (const Tile& tile : tiles) EXPECT_EQ((tile.flat - 4) % 8, 0) << columns;
    EXPECT_LE(block.tile_count, 2 * (1000 * columns / 16384 + 1)) << columns;
  }
}

TEST(Tiles, ADenseMatrixCanBeReadInPlace) {
  const Shape shape{20, 12};
  const std::vector<std::int64_t> strides{12, 1};
  const StridedTensor tensor(shape, shape, strides, strides);
  kernels::Block block;
  std::vector<Tile> tiles;

  tensor.append({{8, 8}, {8, 4}}, 0, block, tiles);

  EXPECT_TRUE(block.regular);
  EXPECT_EQ(block.gradient, 8 * 12 + 8);
  EXPECT_EQ(block.gradient_row, 12);
  EXPECT_EQ(block.gradient_column, 1);
}

}  // namespace
}  // namespace shampoo::test
