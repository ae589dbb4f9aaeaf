// SPDX-License-Identifier: Apache-2.0
#include "tests/kernels/solvers/solver_primitives.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace shampoo::test {
namespace {

using kernels::Measure;
using kernels::Spectrum;

TYPED_TEST_SUITE(SolverPrimitives, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(SolverPrimitives, MultiplySkipsRestingMatrices) {
  using Real = typename TypeParam::Real;
  this->backend->multiply(this->a.squares(), this->b.squares(), this->c.squares(),
                          this->active.data());

  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        if (this->active[m] == 0) {
          ASSERT_TRUE(std::isnan(this->c.at(m, i, j)));
          continue;
        }
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < n; ++k) {
          const double term =
              static_cast<double>(this->a.at(m, i, k)) * static_cast<double>(this->b.at(m, k, j));
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(this->c.at(m, i, j), sum, static_cast<double>(n) * epsilon_of<Real> * size);
      }
}

TYPED_TEST(SolverPrimitives, CombineScalesAndShifts) {
  using Real = typename TypeParam::Real;
  this->backend->combine(this->scales.data(), this->a.squares(), this->shifts.data(),
                         this->c.squares(), this->active.data());
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        Real expected = static_cast<Real>(this->scales[m]) * this->a.at(m, i, j);
        if (i == j) expected = expected + static_cast<Real>(this->shifts[m]);
        if (this->active[m] != 0)
          ASSERT_EQ(this->c.at(m, i, j), expected);
        else
          ASSERT_TRUE(std::isnan(this->c.at(m, i, j)));
      }
}

TYPED_TEST(SolverPrimitives, CombineWorksInPlace) {
  using Real = typename TypeParam::Real;
  const std::vector<double> two(this->a.size(), 2), one(this->a.size(), 1);
  const Real corner = this->a.at(6, 63, 63), other = this->a.at(6, 63, 0);
  this->backend->combine(two.data(), this->a.squares(), one.data(), this->a.squares(), nullptr);

  EXPECT_EQ(this->a.at(6, 63, 63), 2 * corner + 1);
  EXPECT_EQ(this->a.at(6, 63, 0), 2 * other);
}

TYPED_TEST(SolverPrimitives, MeasureGivesTheNumbersOfEveryActiveMatrix) {
  for (const Measure what : {Measure::frobenius, Measure::largest_row_sum, Measure::trace,
                             Measure::distance_from_identity}) {
    std::vector<double> numbers(this->a.size(), -1);
    this->backend->measure(this->a.squares(), what, numbers.data(), this->active.data());

    for (std::size_t m = 0; m < this->a.size(); ++m) {
      const std::int64_t n = this->a.side(m);
      double squares = 0, row_sum = 0, trace = 0, distance = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        double row = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const double x = static_cast<double>(this->a.at(m, i, j));
          squares += x * x;
          row += std::abs(x);
          distance = std::max(distance, std::abs(x - (i == j ? 1 : 0)));
          trace += i == j ? x : 0;
        }
        row_sum = std::max(row_sum, row);
      }
      const double expected = what == Measure::frobenius         ? std::sqrt(squares)
                              : what == Measure::largest_row_sum ? row_sum
                              : what == Measure::trace           ? trace
                                                                 : distance;
      // Sums of n^2 terms in double precision, in another order.
      const double allowed = static_cast<double>(n * n) * 0x1p-53 * (std::sqrt(squares) + row_sum);
      if (this->active[m] != 0)
        EXPECT_NEAR(numbers[m], expected, allowed);
      else
        EXPECT_EQ(numbers[m], -1);
    }
  }
}

TYPED_TEST(SolverPrimitives, MeasureTheSizeOfDefiniteMatricesAlone) {
  using Real = typename TypeParam::Real;
  const auto sizes = [&] {
    std::vector<double> numbers(this->spd.size());
    this->backend->measure(this->spd.squares(), Measure::definite_size, numbers.data(), nullptr);
    return numbers;
  };
  std::vector<double> expected(this->spd.size());
  for (std::size_t m = 0; m < this->spd.size(); ++m)
    for (const Real x : this->spd.matrix(m))
      expected[m] = std::max(expected[m], std::abs(static_cast<double>(x)));
  EXPECT_EQ(sizes(), expected);

  this->spd.at(3, 0, 0) = 0;
  this->spd.at(6, 10, 10) = std::numeric_limits<Real>::quiet_NaN();
  this->spd.at(7, 1, 0) = std::numeric_limits<Real>::quiet_NaN();
  const std::vector<double> others = sizes();
  EXPECT_EQ(others[3], std::numeric_limits<double>::infinity());
  EXPECT_FALSE(std::isfinite(others[6]));
  EXPECT_FALSE(std::isfinite(others[7]));
  EXPECT_EQ(others[5], expected[5]);
}

TYPED_TEST(SolverPrimitives, MeasureShowsThatAnElementIsNotANumber) {
  using Real = typename TypeParam::Real;
  this->a.at(6, 10, 20) = std::numeric_limits<Real>::quiet_NaN();
  for (const Measure what :
       {Measure::frobenius, Measure::largest_row_sum, Measure::distance_from_identity}) {
    std::vector<double> numbers(this->a.size());
    this->backend->measure(this->a.squares(), what, numbers.data(), nullptr);
    EXPECT_TRUE(std::isnan(numbers[6]));
    EXPECT_FALSE(std::isnan(numbers[7]));
  }
}

TYPED_TEST(SolverPrimitives, AssembleAfterEighGivesTheMatrixBack) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> q(solver_sides);
  for (std::size_t m = 0; m < q.size(); ++m)
    std::copy(this->spd.matrix(m).begin(), this->spd.matrix(m).end(), q.matrix(m).begin());
  std::vector<std::int32_t> failed(q.size());
  this->backend->eigh(q.squares(), kernels::Eigensolver::divide_and_conquer, failed.data());
  // values <- |values|: rounding may leave a least one just below zero.
  double largest = 0;
  for (std::size_t m = 0; m < q.size(); ++m)
    for (Real& x : q.values(m)) {
      x = std::abs(x);
      largest = std::max(largest, static_cast<double>(x));
    }
  this->backend->reconstruct(q.squares(), this->c.squares());

  for (std::size_t m = 0; m < q.size(); ++m)
    for (std::int64_t i = 0, n = q.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        ASSERT_NEAR(this->c.at(m, i, j), this->spd.at(m, i, j),
                    8 * static_cast<double>(n) * epsilon_of<Real> * largest);
}

}  // namespace
}  // namespace shampoo::test
