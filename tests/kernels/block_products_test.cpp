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

  double at(std::int64_t sum, std::int64_t k) const {
    const std::int64_t place = along_depth ? sum * stride + k : k * stride + sum;
    return static_cast<double>(numbers[static_cast<std::size_t>(place)]);
  }
  BlockOperand<Real> view() const { return {numbers.data(), stride, along_depth}; }

  std::int64_t stride;
  bool along_depth;
  std::vector<Real> numbers;
};

struct Sum {
  double value = 0, magnitude = 0;  ///< sum_k a_ik b_kj and sum_k |a_ik b_kj|
};

/// A B, row-major.
template <typename Real>
std::vector<Sum> exact(const BlockShape& shape, const Operand<Real>& a, const Operand<Real>& b) {
  std::vector<Sum> c;
  for (std::int64_t i = 0; i < shape.rows; ++i)
    for (std::int64_t j = 0; j < shape.columns; ++j) {
      Sum& sum = c.emplace_back();
      for (std::int64_t k = 0; k < shape.depth; ++k) {
        sum.value += a.at(i, k) * b.at(j, k);
        sum.magnitude += std::abs(a.at(i, k) * b.at(j, k));
      }
    }
  return c;
}

/// depth u sum_k |a_ik b_kj| to first order [Higham 2002, (3.5)], with three more roundings of that
/// and of the old element `c`; twice, as what is expected of doubles is rounded, too.
template <typename Real>
double tolerance(const BlockShape& shape, const Sum& sum, double c = 0) {
  return static_cast<double>(std::numeric_limits<Real>::epsilon()) *
         static_cast<double>(shape.depth + 3) * (sum.magnitude + c);
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

TYPED_TEST(BlockProductsIn, AreThoseOfTheDefinitionWithTheSameBitsOnAllLevels) {
  using Real = TypeParam;
  for (const BlockShape& shape : shapes)
    for (const bool a_along : {true, false})
      for (const bool b_along : {true, false}) {
        const Operand<Real> a(shape.rows, shape.depth, a_along);
        const Operand<Real> b(shape.columns, shape.depth, b_along);
        const std::vector<Sum> expected = exact(shape, a, b);
        std::vector<Real> scratch = scratch_of<Real>(shape), first;
        const std::int64_t stride = shape.columns + 1;
        MemoryAhead later = {RowsAhead{a.numbers.data(), 3, 30, 100},
                             ahead(b.numbers.data(), std::int64_t{1} << 40)};
        for (int i = 0; i < 20; ++i) later.add(ahead(b.numbers.data(), b.stride));
        for (const BlockProducts<Real>& level : levels<Real>()) {
          std::vector<Real> c(static_cast<std::size_t>(shape.rows * stride), Real(7));
          level.multiply(shape, a.view(), b.view(), later, c.data(), stride, scratch.data());
          for (std::int64_t i = 0; i < shape.rows; ++i) {
            for (std::int64_t j = 0; j < shape.columns; ++j) {
              const Sum& sum = expected[static_cast<std::size_t>(i * shape.columns + j)];
              ASSERT_NEAR(c[static_cast<std::size_t>(i * stride + j)], sum.value,
                          tolerance<Real>(shape, sum))
                  << shape.rows << " x " << shape.columns << " x " << shape.depth;
            }
            EXPECT_EQ(c[static_cast<std::size_t>(i * stride + shape.columns)], Real(7));
          }
          if (first.empty()) first = c;
          EXPECT_EQ(c, first);
        }
      }
}

TYPED_TEST(BlockProductsIn, AreSubtracted) {
  using Real = TypeParam;
  for (const BlockShape& shape : shapes)
    for (const bool along : {true, false}) {
      const Operand<Real> a(shape.rows, shape.depth, along);
      const Operand<Real> b(shape.columns, shape.depth, false);
      const std::vector<Sum> expected = exact(shape, a, b);
      std::vector<Real> scratch = scratch_of<Real>(shape), first;
      const std::int64_t stride = shape.columns + 1;
      for (const BlockProducts<Real>& level : levels<Real>()) {
        std::vector<Real> c(static_cast<std::size_t>(shape.rows * stride), Real(7));
        level.subtract(shape, a.view(), b.view(), c.data(), stride, scratch.data());
        for (std::int64_t i = 0; i < shape.rows; ++i) {
          for (std::int64_t j = 0; j < shape.columns; ++j) {
            const Sum& sum = expected[static_cast<std::size_t>(i * shape.columns + j)];
            ASSERT_NEAR(c[static_cast<std::size_t>(i * stride + j)], 7 - sum.value,
                        tolerance<Real>(shape, sum, 7))
                << shape.rows << " x " << shape.columns << " x " << shape.depth;
          }
          EXPECT_EQ(c[static_cast<std::size_t>(i * stride + shape.columns)], Real(7));
        }
        if (first.empty()) first = c;
        EXPECT_EQ(c, first);
      }
    }
}

TYPED_TEST(BlockProductsIn, AreAddedToTriangles) {
  using Real = TypeParam;
  for (const std::int64_t side : {8, 31, 32, 33, 64, 100, 129, 200, 384})
    for (const std::int64_t depth : {8, 50, 256})
      for (const bool packed : {true, false}) {
        const BlockShape shape{side, side, depth};
        const Operand<Real> s(side, depth, packed);
        const std::vector<Sum> expected = exact(shape, s, s);
        std::vector<Real> scratch = scratch_of<Real>(shape), first;
        for (const BlockProducts<Real>& level : levels<Real>()) {
          const std::int64_t size = triangle_row(packed, side, side);
          std::vector<Real> factor(static_cast<std::size_t>(size + 1), Real(2));
          level.accumulate(side, depth, s.view(), {}, Real(0.75), Real(0.25), factor.data(), packed,
                           scratch.data());
          std::int64_t changed = 0;
          for (std::int64_t i = 0; i < side; ++i)
            for (std::int64_t j = 0; j <= i; ++j) {
              const Real l = factor[static_cast<std::size_t>(triangle_row(packed, side, i) + j)];
              const Sum& sum = expected[static_cast<std::size_t>(i * side + j)];
              ASSERT_NEAR(l, 1.5 + 0.25 * sum.value, tolerance<Real>(shape, sum, 2))
                  << side << " x " << depth;
              changed += l != Real(2);
            }
          EXPECT_EQ(std::ranges::count(factor, Real(2)), size + 1 - changed);
          if (first.empty()) first = factor;
          EXPECT_EQ(factor, first);
        }
      }
}

}  // namespace
}  // namespace shampoo::kernels::test
