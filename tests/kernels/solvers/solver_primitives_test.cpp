// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/square_batch.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

using kernels::Measure;
using kernels::Spectrum;

const std::vector<std::int64_t> some_sides = {1, 2, 2, 7, 7, 7, 64, 65, 91, 131};

template <typename Tested>
class SolverPrimitives : public AtPlace<Tested> {
 protected:
  using Number = typename Tested::Real;

  void SetUp() override {
    AtPlace<Tested>::SetUp();
    if (this->backend) this->backend->reserve({}, type_of<Number>, {some_sides.back()});
  }

  SolverPrimitives() {
    for (std::size_t m = 0; m < a.size(); ++m) {
      const std::int64_t n = a.side(m);
      Numbers numbers(m + 1);
      for (auto* batch : {&a, &b})
        for (Number& x : batch->matrix(m)) x = static_cast<Number>(numbers.next());
      for (Number& x : a.pair(m)) x = static_cast<Number>(numbers.next());
      for (Number& x : c.matrix(m)) x = std::numeric_limits<Number>::quiet_NaN();
      scales.push_back(numbers.next());
      shifts.push_back(numbers.next());
      active.push_back(m % 3 != 1);
      fill_wishart<Number>(n, n + 1, m, spd.matrix(m));
    }
  }

  SquareBatch<Number> a{some_sides}, b{some_sides}, c{some_sides}, spd{some_sides};
  std::vector<double> scales, shifts;
  std::vector<std::uint8_t> active;
};

TYPED_TEST_SUITE(SolverPrimitives, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(SolverPrimitives, LoadMirrorsScalesAndShifts) {
  using Real = typename TypeParam::Real;
  this->backend->unpack_factors(this->a.pairs(),
                                {.scales = this->scales.data(), .shifts = this->shifts.data()},
                                this->c.squares());

  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        const std::int64_t place = std::max(i, j) * (n + 1) + std::min(i, j);
        Real expected =
            this->a.pair(m)[static_cast<std::size_t>(place)] * static_cast<Real>(this->scales[m]);
        if (i == j) expected = expected + static_cast<Real>(this->shifts[m]);
        ASSERT_EQ(this->c.at(m, i, j), expected);
      }
}

TYPED_TEST(SolverPrimitives, LoadDividesByAPowerOfTheTrace) {
  using Real = typename TypeParam::Real;
  std::vector<double> floors(this->a.size(), 0.25), zero(this->a.size(), 0), one(this->a.size(), 1);
  this->backend->unpack_factors(
      this->a.pairs(),
      {.scales = one.data(), .shifts = zero.data(), .floors = floors.data(), .trace_exponent = 0.5},
      this->c.squares());

  for (std::size_t m = 0; m < this->a.size(); ++m) {
    const std::int64_t n = this->a.side(m);
    double trace = 0;
    for (std::int64_t i = 0; i < n; ++i)
      trace += static_cast<double>(this->a.pair(m)[static_cast<std::size_t>(i * (n + 2))]);
    const double factor = std::pow(std::max(trace, 0.25), -0.5);
    for (std::int64_t i = 0; i < n; ++i) {
      const double old =
          static_cast<double>(this->a.pair(m)[static_cast<std::size_t>(i * (n + 2))]);
      // One rounding of the factor, one of the product.
      EXPECT_NEAR(this->c.at(m, i, i), old * factor, 2 * epsilon_of<Real> * std::abs(old * factor));
    }
  }
}

TYPED_TEST(SolverPrimitives, LoadAndStoreConvertBetweenPrecisions) {
  using Real = typename TypeParam::Real;
  const std::vector<std::int64_t> sides = {5};
  SquareBatch<Real> pair(sides);
  SquareBatch<double> wide(sides);
  Numbers numbers(3);
  for (Real& x : pair.pair(0)) x = static_cast<Real>(numbers.next());
  const double one = 1, zero = 0;
  this->backend->unpack_factors(pair.pairs(), {.scales = &one, .shifts = &zero}, wide.squares());
  EXPECT_EQ(wide.at(0, 3, 2), static_cast<double>(pair.pair(0)[3 * 6 + 2]));

  std::int32_t failed = 0;
  wide.at(0, 2, 3) = wide.at(0, 3, 2) = 1.0 / 3;
  this->backend->pack_roots(wide.squares(), pair.pairs(), &failed);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(pair.pair(0)[2 * 6 + 3 + 1], static_cast<Real>(1.0 / 3));
}

TYPED_TEST(SolverPrimitives, StoreWritesTheRootOnly) {
  using Real = typename TypeParam::Real;
  const std::vector<Real> old(this->a.pair(8).begin(), this->a.pair(8).end());
  std::vector<std::int32_t> failed(this->a.size(), 0);
  this->backend->pack_roots(this->spd.squares(), this->a.pairs(), failed.data());

  const std::int64_t n = this->a.side(8);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= n; ++j) {
      const auto place = static_cast<std::size_t>(i * (n + 1) + j);
      const Real expected = j > i ? this->spd.at(8, i, j - 1) : old[place];
      ASSERT_EQ(this->a.pair(8)[place], expected);
    }
}

TYPED_TEST(SolverPrimitives, StoreKeepsTheRootOfAFailedOrNonFiniteMatrix) {
  using Real = typename TypeParam::Real;
  std::vector<std::int32_t> failed(this->a.size(), 0);
  failed[3] = 7;
  this->spd.at(4, 6, 0) = std::numeric_limits<Real>::infinity();
  this->spd.at(8, 0, 90) = std::numeric_limits<Real>::quiet_NaN();
  std::vector<std::vector<Real>> old;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    old.emplace_back(this->a.pair(m).begin(), this->a.pair(m).end());
  this->backend->pack_roots(this->spd.squares(), this->a.pairs(), failed.data());

  for (std::size_t m = 0; m < this->a.size(); ++m) {
    const bool is_kept = m == 3 || m == 4 || m == 8;
    EXPECT_EQ(failed[m], m == 3 ? 7 : is_kept ? kernels::non_finite_root : 0);
    EXPECT_EQ(std::equal(old[m].begin(), old[m].end(), this->a.pair(m).begin()), is_kept);
  }
}

class Store : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (!IsSkipped() && !HasFatalFailure()) backend = backend_with_host_arrays(GetParam());
  }

  std::unique_ptr<kernels::Backend> backend;
};
INSTANTIATE_TEST_SUITE_P(Everywhere, Store, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(Store, RefusesANumberThatOverflowsTheRootsType) {
  SquareBatch<double> x({2});
  SquareBatch<float> root({2});
  x.at(0, 0, 0) = x.at(0, 1, 1) = 1;
  x.at(0, 0, 1) = x.at(0, 1, 0) = 1e39;
  std::int32_t failed = 0;
  backend->pack_roots(x.squares(), root.pairs(), &failed);

  EXPECT_EQ(failed, kernels::non_finite_root);
  EXPECT_EQ(root.pair(0)[1], 0);
}

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
  SquareBatch<Real> q(some_sides);
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
