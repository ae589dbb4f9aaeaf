// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/solvers/solver_primitives.h"

// Factors unpacked for a solver, and roots packed.

namespace shampoo::test {
namespace {

template <typename Tested>
using FactorsAndRoots = SolverPrimitives<Tested>;
TYPED_TEST_SUITE(FactorsAndRoots, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(FactorsAndRoots, LoadMirrorsScalesAndShifts) {
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

TYPED_TEST(FactorsAndRoots, LoadDividesByAPowerOfTheTrace) {
  using Real = typename TypeParam::Real;
  std::vector<double> floors(this->a.size(), 0.25), one(this->a.size(), 1);
  std::vector<double> sizes(this->a.size(), 0);
  this->backend->unpack_factors(
      this->a.pairs(), {.scales = one.data(), .floors = floors.data(), .trace_exponent = 0.5},
      this->c.squares());
  this->backend->unpack_factors(
      this->a.pairs(),
      {.scales = one.data(), .floors = floors.data(), .trace_exponent = 0.5, .sizes = sizes.data()},
      this->b.squares());

  for (std::size_t m = 0; m < this->a.size(); ++m) {
    const std::int64_t n = this->a.side(m);
    double trace = 0, size = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const auto x = static_cast<double>(this->a.pair(m)[static_cast<std::size_t>(i * (n + 2))]);
      trace += x;
      size += std::abs(x);
    }
    const double floored = std::max(trace, 0.25), factor = std::pow(floored, -0.5);
    // Sums in two orders, each off by (n - 1) / 2 epsilons of `size`, half of which is in the
    // power, and two powers, of which CUDA's is off by up to 2 units in the last place.
    const double of_factor =
        epsilon_of<double> * (0.5 * static_cast<double>(n) * size / floored + 3);
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(static_cast<double>(this->b.at(m, i, i)) * sizes[m],
                static_cast<double>(this->c.at(m, i, i)));
      const double old =
          static_cast<double>(this->a.pair(m)[static_cast<std::size_t>(i * (n + 2))]);
      // One rounding of the factor, one of the product.
      EXPECT_NEAR(this->c.at(m, i, i), old * factor,
                  (2 * epsilon_of<Real> + of_factor) * std::abs(old * factor));
    }
  }
}

TYPED_TEST(FactorsAndRoots, LoadAndStoreConvertBetweenPrecisions) {
  using Real = typename TypeParam::Real;
  const std::vector<std::int64_t> sides = {5};
  SquareBatch<Real> pair(sides);
  SquareBatch<double> wide(sides);
  Numbers numbers(3);
  for (Real& x : pair.pair(0)) x = static_cast<Real>(numbers.next());
  const double one = 1;
  this->backend->unpack_factors(pair.pairs(), {.scales = &one}, wide.squares());
  EXPECT_EQ(wide.at(0, 3, 2), static_cast<double>(pair.pair(0)[3 * 6 + 2]));

  std::int32_t failed = 0;
  wide.at(0, 2, 3) = wide.at(0, 3, 2) = 1.0 / 3;
  this->backend->pack_roots(wide.squares(), {}, pair.pairs(), &failed);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(pair.pair(0)[2 * 6 + 3 + 1], static_cast<Real>(1.0 / 3));
}

TYPED_TEST(FactorsAndRoots, StoreWritesTheRootOnly) {
  using Real = typename TypeParam::Real;
  const std::vector<Real> old(this->a.pair(8).begin(), this->a.pair(8).end());
  std::vector<std::int32_t> failed(this->a.size(), 0);
  this->backend->pack_roots(this->spd.squares(), {}, this->a.pairs(), failed.data());

  const std::int64_t n = this->a.side(8);
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j <= n; ++j) {
      const auto place = static_cast<std::size_t>(i * (n + 1) + j);
      const Real expected = j > i ? this->spd.at(8, i, j - 1) : old[place];
      ASSERT_EQ(this->a.pair(8)[place], expected);
    }
}

TYPED_TEST(FactorsAndRoots, StoreTakesTheMeanOfBothTriangles) {
  using Real = typename TypeParam::Real;
  std::vector<std::int32_t> failed(this->a.size(), 0);
  const auto mean = [](std::int64_t i, std::int64_t j) { return static_cast<Real>(i * j % 61); };
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        this->c.at(m, i, j) = mean(i, j) + (i < j ? Real(0.25) : i == j ? Real(0) : Real(-0.25));
  this->backend->pack_roots(this->c.squares(), {}, this->a.pairs(), failed.data());
  for (std::size_t m = 0; m < this->a.size(); ++m)
    for (std::int64_t i = 0, n = this->a.side(m); i < n; ++i)
      for (std::int64_t j = i; j < n; ++j)
        ASSERT_EQ(this->a.pair(m)[static_cast<std::size_t>(i * (n + 1) + j + 1)], mean(i, j));
}

TYPED_TEST(FactorsAndRoots, StoreMultipliesByAPower) {
  using Real = typename TypeParam::Real;
  const std::int64_t n = this->spd.side(8);
  const std::vector<Real> x(this->spd.matrix(8).begin(), this->spd.matrix(8).end());
  std::vector<std::int32_t> failed(this->a.size(), 0);
  const std::vector<double> sizes(this->a.size(), 16);
  this->backend->pack_roots(this->spd.squares(), {sizes.data(), -0.25}, this->a.pairs(),
                            failed.data());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = i; j < n; ++j)
      ASSERT_EQ(this->a.pair(8)[static_cast<std::size_t>(i * (n + 1) + j + 1)],
                Real(0.5) * x[static_cast<std::size_t>(i * n + j)]);
}

TYPED_TEST(FactorsAndRoots, StoreRefusesWhatOverflowsWhenItIsScaled) {
  using Real = typename TypeParam::Real;
  std::vector<std::int32_t> failed(this->a.size(), 0);
  std::vector<double> sizes(this->a.size(), 1);
  sizes[4] = std::numeric_limits<Real>::max();
  this->spd.at(4, 6, 6) = 2;
  this->backend->pack_roots(this->spd.squares(), {sizes.data(), 1}, this->a.pairs(), failed.data());
  for (std::size_t m = 0; m < this->a.size(); ++m)
    EXPECT_EQ(failed[m], m == 4 ? kernels::non_finite_root : 0);
}

TYPED_TEST(FactorsAndRoots, StoreKeepsTheRootOfAFailedOrNonFiniteMatrix) {
  using Real = typename TypeParam::Real;
  std::vector<std::int32_t> failed(this->a.size(), 0);
  failed[3] = 7;
  this->spd.at(4, 6, 0) = std::numeric_limits<Real>::infinity();
  this->spd.at(8, 0, 90) = std::numeric_limits<Real>::quiet_NaN();
  std::vector<std::vector<Real>> old;
  for (std::size_t m = 0; m < this->a.size(); ++m)
    old.emplace_back(this->a.pair(m).begin(), this->a.pair(m).end());
  this->backend->pack_roots(this->spd.squares(), {}, this->a.pairs(), failed.data());

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
  backend->pack_roots(x.squares(), {}, root.pairs(), &failed);

  EXPECT_EQ(failed, kernels::non_finite_root);
  EXPECT_EQ(root.pair(0)[1], 0);
}

}  // namespace
}  // namespace shampoo::test
