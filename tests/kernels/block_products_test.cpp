// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/block_products.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels::test {
namespace {

/// The levels that this processor has.
template <typename Real>
std::vector<BlockProducts<Real>> levels() {
  std::vector<BlockProducts<Real>> all;
#if defined(__x86_64__)
  if (best_level().name != base_level().name) all.push_back(x86_v3_block_products(Real()));
  if (best_level().name == x86_v4_level().name) all.push_back(x86_v4_block_products(Real()));
#endif
  return all;
}

template <typename Real>
std::vector<Real> random_numbers(std::int64_t count) {
  std::mt19937_64 random(static_cast<std::uint64_t>(count));
  std::normal_distribution<double> normal;
  std::vector<Real> numbers(static_cast<std::size_t>(count));
  for (Real& x : numbers) x = static_cast<Real>(normal(random));
  return numbers;
}

template <typename Real>
constexpr Real nan = std::numeric_limits<Real>::quiet_NaN();

/// An operand with `sums` sums, with NaN between its rows and nothing behind the last one.
template <typename Real>
struct Operand {
  Operand(std::int64_t sums, std::int64_t depth, bool along)
      : stride((along ? depth : sums) + 3), along_depth(along) {
    const std::int64_t rows = along ? sums : depth;
    numbers = random_numbers<Real>(rows * stride - 3);
    for (std::int64_t row = 1; row < rows; ++row)
      std::fill_n(numbers.begin() + row * stride - 3, 3, nan<Real>);
  }

  Real at(std::int64_t sum, std::int64_t k) const {
    return numbers[static_cast<std::size_t>(along_depth ? sum * stride + k : k * stride + sum)];
  }
  BlockOperand<Real> view() const { return {numbers.data(), stride, along_depth}; }

  std::int64_t stride;
  bool along_depth;
  std::vector<Real> numbers;
};

/// A B, row-major: sums from the first term to the last, fused
template <typename Real>
std::vector<Real> product(const BlockShape& shape, const Operand<Real>& a, const Operand<Real>& b) {
  std::vector<Real> c;
  for (std::int64_t i = 0; i < shape.rows; ++i)
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      Real sum = 0;
      for (std::int64_t k = 0; k < shape.depth; ++k) sum = std::fma(a.at(i, k), b.at(j, k), sum);
      c.push_back(sum);
    }
  return c;
}

/// Rows of `columns` numbers with a 7 behind each, where nothing is written
template <typename Real>
std::vector<Real> with_gaps(const std::vector<Real>& numbers, std::int64_t columns) {
  std::vector<Real> c;
  for (auto row = numbers.begin(); row != numbers.end(); row += columns) {
    c.insert(c.end(), row, row + columns);
    c.push_back(7);
  }
  return c;
}

template <typename Real>
std::vector<Real> scratch_of(const BlockShape& shape) {
  const std::int64_t side = std::max({shape.rows, shape.columns, shape.depth});
  return std::vector<Real>(static_cast<std::size_t>(block_product_scratch(side)), nan<Real>);
}

const std::vector<BlockShape> shapes{{8, 8, 8},    {8, 32, 16},  {9, 33, 17},     {40, 13, 130},
                                     {64, 64, 64}, {67, 97, 31}, {128, 200, 256}, {384, 384, 384}};

template <typename Real>
class BlockProductsIn : public testing::Test {
 protected:
  void SetUp() override {
    if (levels<Real>().empty()) GTEST_SKIP() << "a processor with AVX2 is needed";
  }
};
using RealTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(BlockProductsIn, RealTypes);

TYPED_TEST(BlockProductsIn, AreFusedSumsInOrderOnAllLevels) {
  using Real = TypeParam;
  for (const BlockShape& shape : shapes)
    for (const bool a_along : {true, false})
      for (const bool b_along : {true, false}) {
        const Operand<Real> a(shape.rows, shape.depth, a_along);
        const Operand<Real> b(shape.columns, shape.depth, b_along);
        const std::vector<Real> expected = with_gaps(product(shape, a, b), shape.columns);
        std::vector<Real> scratch = scratch_of<Real>(shape);
        MemoryAhead later = {RowsAhead{a.numbers.data(), 3, 30, 100},
                             ahead(b.numbers.data(), std::int64_t{1} << 40)};
        for (int i = 0; i < 20; ++i) later.add(ahead(b.numbers.data(), b.stride));
        for (const BlockProducts<Real>& level : levels<Real>()) {
          std::vector<Real> c(expected.size(), Real(7));
          level.multiply(shape, a.view(), b.view(), later, c.data(), shape.columns + 1,
                         scratch.data());
          ASSERT_EQ(c, expected) << shape.rows << " x " << shape.columns << " x " << shape.depth;
        }
      }
}

TYPED_TEST(BlockProductsIn, AreSubtracted) {
  using Real = TypeParam;
  for (const BlockShape& shape : shapes)
    for (const bool along : {true, false}) {
      const Operand<Real> a(shape.rows, shape.depth, along);
      const Operand<Real> b(shape.columns, shape.depth, false);
      std::vector<Real> expected = product(shape, a, b), scratch = scratch_of<Real>(shape);
      for (Real& c : expected) c = 7 - c;
      expected = with_gaps(expected, shape.columns);
      for (const BlockProducts<Real>& level : levels<Real>()) {
        std::vector<Real> c(expected.size(), Real(7));
        level.subtract(shape, a.view(), b.view(), c.data(), shape.columns + 1, scratch.data());
        ASSERT_EQ(c, expected) << shape.rows << " x " << shape.columns << " x " << shape.depth;
      }
    }
}

TYPED_TEST(BlockProductsIn, AreAddedToTriangles) {
  using Real = TypeParam;
  const Real keep = Real(0.7), add = Real(0.3);
  for (const std::int64_t side : {8, 13, 31, 32, 33, 64, 100, 128, 129, 200, 384})
    for (const std::int64_t depth : {8, 50, 256})
      for (const bool along : {true, false}) {
        const BlockShape shape{side, side, depth};
        const Operand<Real> s(side, depth, along);
        const std::vector<Real> sums = product(shape, s, s);
        std::vector<Real> scratch = scratch_of<Real>(shape);
        for (const bool packed : {true, false}) {
          const auto size = static_cast<std::size_t>(triangle_row(packed, side, side) + 1);
          std::vector<Real> expected(size, Real(2));
          for (std::int64_t i = 0; i < side; ++i)
            for (std::int64_t j = 0; j <= i; ++j)
              expected[static_cast<std::size_t>(triangle_row(packed, side, i) + j)] =
                  std::fma(keep, Real(2), add * sums[static_cast<std::size_t>(i * side + j)]);
          for (const BlockProducts<Real>& level : levels<Real>()) {
            std::vector<Real> factor(size, Real(2));
            level.accumulate(side, depth, s.view(), {}, keep, add, factor.data(), packed,
                             scratch.data());
            ASSERT_EQ(factor, expected) << side << " x " << depth;
          }
        }
      }
}

}  // namespace
}  // namespace shampoo::kernels::test
