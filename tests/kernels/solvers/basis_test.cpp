// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "tests/kernels/square_batch.h"
#include "tests/support/device/backends.h"

// Householder's method is backward stable: rows are orthonormal within n epsilon, and each row of X
// lies in the span of those of Q up to it, within n epsilon |X|; the factor 4 covers its constants.

namespace shampoo::test {
namespace {

const std::vector<std::int64_t> sides = {1, 2, 2, 13, 64, 65};

template <typename Real>
double tolerance(std::int64_t n) {
  return 4 * static_cast<double>(n) * static_cast<double>(std::numeric_limits<Real>::epsilon());
}

template <typename Real>
double dot(const Real* a, const Real* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <typename Tested>
class Bases : public AtPlace<Tested> {
 protected:
  void SetUp() override {
    AtPlace<Tested>::SetUp();
    if (this->backend) this->backend->reserve({}, Type::float64, {sides.back()});
  }
};
TYPED_TEST_SUITE(Bases, RealsAtAllPlaces, NameOfPlace);

TYPED_TEST(Bases, HaveOrthonormalRowsThatSpanThoseBeforeThem) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> x(sides), q(sides);
  for (std::size_t m = 0; m < x.size(); ++m)
    std::ranges::copy(Numbers(m + 1).some<Real>(x.side(m) * x.side(m)), x.matrix(m).begin());
  std::vector<std::vector<Real>> before;
  for (std::size_t m = 0; m < x.size(); ++m)
    before.emplace_back(x.matrix(m).begin(), x.matrix(m).end());

  this->backend->iterate_orthogonally(x.squares(), q.squares(), q.squares(), 1, nullptr);

  for (std::size_t m = 0; m < x.size(); ++m) {
    const std::int64_t n = x.side(m);
    const Real* const rows = q.matrix(m).data();
    for (std::int64_t i = 0; i < n; ++i) {
      const Real* const row = before[m].data() + i * n;
      const double norm = std::sqrt(dot(row, row, n));
      for (std::int64_t j = 0; j < n; ++j) {
        EXPECT_NEAR(dot(rows + i * n, rows + j * n, n), i == j, tolerance<Real>(n));
        if (j > i) {
          EXPECT_NEAR(dot(row, rows + j * n, n), 0, tolerance<Real>(n) * norm);
        }
      }
    }
  }
}

// A has eigenvalues in [1/2, 3/2], so that rounding grows at most threefold in an iteration.
TYPED_TEST(Bases, AreIteratedAsByOneIterationAfterAnother) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> a(sides), x(sides), q(sides), one_x(sides), one_q(sides);
  for (std::size_t m = 0; m < x.size(); ++m) {
    const std::int64_t n = x.side(m);
    const auto at = [n](std::int64_t i, std::int64_t j) {
      return static_cast<std::size_t>(i * n + j);
    };
    const std::vector<Real> noise = Numbers(m + 7).some<Real>(n * n);
    double largest = 0;
    for (const Real e : noise) largest = std::max(largest, std::abs(static_cast<double>(e)));
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j <= i; ++j)
        a.matrix(m)[at(i, j)] = a.matrix(m)[at(j, i)] =
            static_cast<Real>((i == j) + static_cast<double>(noise[at(i, j)]) /
                                             (2 * largest * static_cast<double>(n)));
    std::ranges::copy(Numbers(m + 1).some<Real>(n * n), x.matrix(m).begin());
    for (std::int64_t i = 0; i < n; ++i) x.matrix(m)[at(i, i)] += static_cast<Real>(4 * n);
    std::ranges::copy(x.matrix(m), one_x.matrix(m).begin());
  }

  this->backend->iterate_orthogonally(x.squares(), a.squares(), q.squares(), 3, nullptr);
  for (int i = 0; i < 3; ++i) {
    if (i > 0) this->backend->multiply(one_q.squares(), a.squares(), one_x.squares(), nullptr);
    this->backend->iterate_orthogonally(one_x.squares(), a.squares(), one_q.squares(), 1, nullptr);
  }

  for (std::size_t m = 0; m < x.size(); ++m)
    for (std::size_t i = 0; i < q.matrix(m).size(); ++i)
      EXPECT_NEAR(q.matrix(m)[i], one_q.matrix(m)[i], 9 * tolerance<Real>(x.side(m)))
          << "side " << x.side(m) << ", element " << i;
}

TYPED_TEST(Bases, LeaveRowsThatAreNotActiveAlone) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> x({3, 3}), q({3, 3});
  for (std::size_t m = 0; m < 2; ++m)
    std::ranges::copy(Numbers(m + 1).some<Real>(9), x.matrix(m).begin());
  const std::vector<std::uint8_t> active = {0, 1};

  this->backend->iterate_orthogonally(x.squares(), q.squares(), q.squares(), 1, active.data());

  EXPECT_EQ(std::ranges::count(q.matrix(0), Real(0)), 9);
  EXPECT_EQ(std::ranges::count(q.matrix(1), Real(0)), 0);
}

TYPED_TEST(Bases, AreSortedByTheirRayleighQuotientsAndEqualOnesStay) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> a({4}), x({4}), q({4}), s({4});
  const std::vector<Real> values = {3, -1, 3, 2};
  for (std::int64_t i = 0; i < 4; ++i) {
    q.at(0, i, i) = 1;
    a.at(0, i, i) = values[static_cast<std::size_t>(i)];
  }

  this->backend->sort_basis(a.squares(), x.squares(), q.squares(), s.squares());

  EXPECT_EQ(std::vector<Real>(s.values(0).begin(), s.values(0).end()),
            (std::vector<Real>{-1, 2, 3, 3}));
  for (const auto& [row, column] : {std::pair{0, 1}, {1, 3}, {2, 0}, {3, 2}})
    EXPECT_EQ(s.at(0, row, column), 1) << row;
}

TYPED_TEST(Bases, KeepAllRowsWhereAQuotientIsNotANumber) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> a({4}), x({4}), q({4}), s({4});
  for (std::int64_t i = 0; i < 4; ++i) q.at(0, i, i) = 1;
  a.at(0, 0, 0) = std::numeric_limits<Real>::quiet_NaN();
  this->backend->sort_basis(a.squares(), x.squares(), q.squares(), s.squares());
  EXPECT_TRUE(std::ranges::any_of(s.values(0), [](Real value) { return std::isnan(value); }));
  for (std::int64_t j = 0; j < 4; ++j) {
    Real sum = 0;
    for (std::int64_t i = 0; i < 4; ++i) sum += s.at(0, i, j);
    EXPECT_EQ(sum, 1) << j;
  }
}

TYPED_TEST(Bases, AreSortedByTheRayleighQuotientsOfSymmetricMatricesOfAnySide) {
  using Real = typename TypeParam::Real;
  const std::vector<std::int64_t> all = {2, 33, 128, 129, 161};
  this->backend->reserve({}, Type::float64, {all.back()});
  SquareBatch<Real> a(all), x(all), q(all), s(all);
  for (std::size_t m = 0; m < all.size(); ++m) {
    const std::int64_t n = all[m];
    fill_wishart<Real>(n, n, m, a.matrix(m));
    std::ranges::copy(Numbers(m + 1).some<Real>(n * n), q.matrix(m).begin());
  }

  this->backend->sort_basis(a.squares(), x.squares(), q.squares(), s.squares());

  for (std::size_t m = 0; m < all.size(); ++m) {
    const std::int64_t n = all[m];
    EXPECT_TRUE(std::ranges::is_sorted(s.values(m))) << n;
    std::vector<std::vector<Real>> rows, sorted;
    for (std::int64_t j = 0; j < n; ++j) {
      const Real* const row = s.matrix(m).data() + j * n;
      double quotient = 0, size = 0;
      for (std::int64_t i = 0; i < n; ++i)
        for (std::int64_t k = 0; k < n; ++k) {
          const double term = static_cast<double>(row[i]) * static_cast<double>(a.at(m, i, k)) *
                              static_cast<double>(row[k]);
          quotient += term;
          size += std::abs(term);
        }
      EXPECT_NEAR(static_cast<double>(s.values(m)[static_cast<std::size_t>(j)]), quotient,
                  tolerance<Real>(n) * size);
      sorted.emplace_back(row, row + n);
      rows.emplace_back(q.matrix(m).data() + j * n, q.matrix(m).data() + (j + 1) * n);
    }
    std::ranges::sort(rows);
    std::ranges::sort(sorted);
    EXPECT_EQ(rows, sorted) << n;
  }
}

TYPED_TEST(Bases, AreStoredUnlessTheyAreNotFinite) {
  using Real = typename TypeParam::Real;
  SquareBatch<Real> q({2, 2, 2});
  for (std::size_t m = 0; m < 3; ++m) {
    std::ranges::fill(q.matrix(m), Real(2));
    std::ranges::fill(q.values(m), Real(3));
  }
  q.matrix(1)[3] = std::numeric_limits<Real>::infinity();
  std::vector<std::vector<float>> bases(3, std::vector<float>(4)), values(3, std::vector<float>(2));
  std::vector<void*> to = {bases[0].data(), bases[1].data(), bases[2].data()};
  std::vector<void*> values_to = {values[0].data(), values[1].data(), values[2].data()};
  const kernels::BasisBatch batch{Type::float32, 2, 3, 0, to.data(), values_to.data()};
  std::vector<std::int32_t> failed = {0, 0, 7};

  this->backend->store_bases(q.squares(), {&batch, 1}, failed.data());

  EXPECT_EQ(failed, (std::vector<std::int32_t>{0, kernels::non_finite_root, 7}));
  EXPECT_EQ(bases[0], std::vector<float>(4, 2.0F));
  EXPECT_EQ(values[0], std::vector<float>(2, 3.0F));
  EXPECT_EQ(bases[1], std::vector<float>(4));
  EXPECT_EQ(values[2], std::vector<float>(2));
}

}  // namespace
}  // namespace shampoo::test
