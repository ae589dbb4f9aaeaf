// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/blas/householder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/cpu/floating_mode.h"
#include "kernels/cpu/simd/vector_kernels.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/solvers/reflection_levels.h"

// Householder's method is backward stable whatever the condition of X [Golub 2013, ch. 5.2]: rows
// of Q are orthonormal within n epsilon, and each row of X lies in the span of its rows of Q within
// n epsilon of its norm; the factor 4 covers the constants.

namespace shampoo::test {
namespace {

template <typename Real>
struct NamedMatrix {
  std::string name;
  std::vector<Real> x;
};

template <typename Real>
constexpr double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());

template <typename Real>
std::vector<NamedMatrix<Real>> matrices_of(std::int64_t n) {
  using Limits = std::numeric_limits<Real>;
  const auto at = [n](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * n + j);
  };
  const std::size_t count = static_cast<std::size_t>(n * n);
  const std::vector<Real> random = Numbers(7).some<Real>(n * n);
  std::vector<NamedMatrix<Real>> all = {{"random", random}, {"zeros", std::vector<Real>(count)}};
  const auto add = [&](const std::string& name, auto&& element) {
    std::vector<Real> x(count);
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t j = 0; j < n; ++j) x[at(i, j)] = element(i, j);
    all.push_back({name, std::move(x)});
  };
  const Real widest = static_cast<Real>(Limits::max_exponent - 2);
  const Real side = static_cast<Real>(n);
  add("identity", [](std::int64_t i, std::int64_t j) { return Real(i == j); });
  add("Hilbert", [](std::int64_t i, std::int64_t j) { return 1 / static_cast<Real>(i + j + 1); });
  add("equal rows", [&](std::int64_t, std::int64_t j) { return random[at(0, j)]; });
  add("rank 3", [&](std::int64_t i, std::int64_t j) {
    Real sum = 0;
    for (std::int64_t k = 0; k < std::min<std::int64_t>(n, 3); ++k)
      sum += random[at(k, i)] * random[at(k, j)];
    return sum;
  });
  add("zero rows and columns", [&](std::int64_t i, std::int64_t j) {
    return i % 5 == 1 || j % 7 == 2 ? Real(0) : random[at(i, j)];
  });
  add("one entry", [&](std::int64_t i, std::int64_t j) { return Real(i == n / 2 && j == n / 3); });
  add("rows of all magnitudes", [&](std::int64_t i, std::int64_t j) {
    return std::ldexp(random[at(i, j)],
                      static_cast<int>(widest * (2 * static_cast<Real>(i) / side - 1)));
  });
  add("columns of all magnitudes", [&](std::int64_t i, std::int64_t j) {
    return std::ldexp(random[at(i, j)],
                      static_cast<int>(widest * (2 * static_cast<Real>(j) / side - 1)));
  });
  // As Q A with eigenvalues over eight decades and a Q that is nearly a basis.
  add("nearly equal rows", [&](std::int64_t i, std::int64_t j) {
    const double fall = std::pow(10, -8 * static_cast<double>(i) / static_cast<double>(n));
    return static_cast<Real>(static_cast<double>(random[at(0, j)]) +
                             fall * static_cast<double>(random[at(i, j)]));
  });
  add("huge", [&](std::int64_t i, std::int64_t j) {
    return std::copysign(Limits::max() / 2, random[at(i, j)]);
  });
  add("denormal", [&](std::int64_t i, std::int64_t j) {
    return static_cast<Real>(1 + static_cast<int>(100 * std::abs(random[at(i, j)]))) *
           Limits::denorm_min();
  });
  return all;
}

/// Of rows scaled to the largest element, in double.
template <typename Real>
double scaled_dot(const Real* a, Real scale, const Real* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(a[i]) / static_cast<double>(scale) * static_cast<double>(b[i]);
  return sum;
}

template <typename Real>
std::vector<Real> orthonormalized(std::int64_t n, const Real* x) {
  kernels::Scratch scratch;
  scratch.reserve(kernels::householder_scratch(n));
  std::vector<Real> q(static_cast<std::size_t>(n * n));
  kernels::iterate_orthogonally(n, x, static_cast<const Real*>(nullptr), 1, q.data(), scratch);
  return q;
}

template <typename Real>
void expect_orthonormal_rows_that_span(const std::vector<Real>& x, const std::vector<Real>& q,
                                       std::int64_t n, bool spans) {
  const double tolerance = 4 * static_cast<double>(n) * epsilon<Real>;
  double from_identity = 0, outside = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const Real* const row = x.data() + i * n;
    Real largest = 0;
    for (std::int64_t j = 0; j < n; ++j) largest = std::max(largest, std::abs(row[j]));
    for (std::int64_t j = 0; j < n; ++j) {
      const Real* const other = q.data() + j * n;
      from_identity = std::max(
          from_identity, std::abs(scaled_dot(q.data() + i * n, Real(1), other, n) - (i == j)));
      if (j > i && largest > 0)
        outside = std::max(outside, std::abs(scaled_dot(row, largest, other, n)));
    }
  }
  EXPECT_LE(from_identity, tolerance);
  // The norm of a scaled row is at most sqrt(n).
  if (spans) {
    EXPECT_LE(outside, tolerance * std::sqrt(static_cast<double>(n)));
  }
}

template <typename Real>
class Householder : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(Householder, Reals);

TYPED_TEST(Householder, GivesOrthonormalRowsThatSpanThoseBeforeThemWhateverTheCondition) {
  for (const std::int64_t n : {1, 2, 3, 31, 32, 33, 64, 100, 161})
    for (const NamedMatrix<TypeParam>& matrix : matrices_of<TypeParam>(n)) {
      SCOPED_TRACE(matrix.name + ", side " + std::to_string(n));
      expect_orthonormal_rows_that_span(matrix.x, orthonormalized(n, matrix.x.data()), n, true);
    }
}

// Products of longer sides than block products have are BLAS's; those of later panels are not.
TYPED_TEST(Householder, IteratesOnLongSides) {
  const std::int64_t n = 385;
  const std::vector<TypeParam> x = Numbers(7).some<TypeParam>(n * n);
  std::vector<TypeParam> a(x), q(x.size());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < i; ++j)
      a[static_cast<std::size_t>(j * n + i)] = a[static_cast<std::size_t>(i * n + j)];
  kernels::Scratch scratch;
  scratch.reserve(kernels::householder_scratch(n));
  expect_orthonormal_rows_that_span(x, orthonormalized(n, x.data()), n, true);
  kernels::iterate_orthogonally(n, x.data(), a.data(), 3, q.data(), scratch);
  expect_orthonormal_rows_that_span(x, q, n, false);
}

TYPED_TEST(Householder, CountsDenormalsAsZeroWhereTheProcessorDoes) {
  const kernels::FloatingMode mode;
  for (const std::int64_t n : {1, 33, 100})
    for (const NamedMatrix<TypeParam>& matrix : matrices_of<TypeParam>(n)) {
      SCOPED_TRACE(matrix.name + ", side " + std::to_string(n));
      expect_orthonormal_rows_that_span(matrix.x, orthonormalized(n, matrix.x.data()), n,
                                        matrix.name != "denormal");
    }
}

// Row by row without blocks, in double.
std::vector<double> unblocked(std::vector<double> x, std::int64_t n) {
  const auto at = [n](std::int64_t i, std::int64_t j) {
    return static_cast<std::size_t>(i * n + j);
  };
  std::vector<std::vector<double>> vectors;
  for (std::int64_t j = 0; j + 1 < n; ++j) {
    std::vector<double> v(static_cast<std::size_t>(n));
    double squares = 0;
    for (std::int64_t i = j; i < n; ++i) {
      v[static_cast<std::size_t>(i)] = x[at(j, i)];
      squares += x[at(j, i)] * x[at(j, i)];
    }
    v[static_cast<std::size_t>(j)] += std::copysign(std::sqrt(squares), x[at(j, j)]);
    double length = 0;
    for (const double e : v) length += e * e;
    for (double& e : v) e /= std::sqrt(length);
    vectors.push_back(v);
    for (std::int64_t i = j; i < n; ++i) {
      double along = 0;
      for (std::int64_t k = 0; k < n; ++k) along += x[at(i, k)] * v[static_cast<std::size_t>(k)];
      for (std::int64_t k = 0; k < n; ++k)
        x[at(i, k)] -= 2 * along * v[static_cast<std::size_t>(k)];
    }
  }
  std::vector<double> q(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i) {
    q[at(i, i)] = 1;
    for (auto v = vectors.rbegin(); v != vectors.rend(); ++v) {
      double along = 0;
      for (std::int64_t k = 0; k < n; ++k) along += q[at(i, k)] * (*v)[static_cast<std::size_t>(k)];
      for (std::int64_t k = 0; k < n; ++k)
        q[at(i, k)] -= 2 * along * (*v)[static_cast<std::size_t>(k)];
    }
  }
  return q;
}

TYPED_TEST(Householder, HasTheSignsOfLapack) {
  for (const std::int64_t n : {1, 2, 31, 32, 33, 100}) {
    std::vector<TypeParam> x = Numbers(3).some<TypeParam>(n * n);
    // Well conditioned, so that Q is as accurate as its orthogonality.
    for (std::int64_t i = 0; i < n; ++i)
      x[static_cast<std::size_t>(i * (n + 1))] +=
          static_cast<TypeParam>(i % 2 == 0 ? 4 * n : -4 * n);
    const std::vector<double> expected = unblocked({x.begin(), x.end()}, n);
    const std::vector<TypeParam> q = orthonormalized(n, x.data());
    for (std::size_t i = 0; i < q.size(); ++i)
      EXPECT_NEAR(static_cast<double>(q[i]), expected[i],
                  4 * static_cast<double>(n) * epsilon<TypeParam>)
          << "side " << n << ", element " << i;
  }
}

TYPED_TEST(Householder, IsTheSameAtEveryLevelOfTheInstructionSetButForRounding) {
  const std::int64_t count = 13, length = 45, stride = 48;
  const std::vector<TypeParam> x = Numbers(4).some<TypeParam>(count * stride);
  std::vector<std::vector<TypeParam>> all;
  for (const kernels::Reflections& level : reflection_levels()) {
    kernels::Scratch scratch;
    scratch.reserve(kernels::scratch_bytes<TypeParam>(count * stride));
    auto* const rows = scratch.take<TypeParam>(count * stride);
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t j = 0; j < stride; ++j)
        rows[i * stride + j] = j < length ? x[static_cast<std::size_t>(i * stride + j)] : 0;
    std::vector<TypeParam> result(static_cast<std::size_t>(count));
    if constexpr (std::is_same_v<TypeParam, float>)
      level.in_float.reflect(rows, count, length, stride, result.data());
    else
      level.in_double.reflect(rows, count, length, stride, result.data());
    result.insert(result.end(), rows, rows + count * stride);
    all.push_back(std::move(result));
  }
  for (const std::vector<TypeParam>& one : all)
    for (std::size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(static_cast<double>(one[i]), static_cast<double>(all.front()[i]),
                  4 * static_cast<double>(length) * epsilon<TypeParam>)
          << i;
}

TYPED_TEST(Householder, ShowsElementsThatAreNotFinite) {
  using Limits = std::numeric_limits<TypeParam>;
  const std::int64_t n = 40;
  for (const TypeParam bad : {Limits::quiet_NaN(), Limits::infinity(), -Limits::infinity()})
    for (const std::size_t place : {std::size_t{0}, std::size_t{35 * 40 + 3}}) {
      std::vector<TypeParam> x = Numbers(5).some<TypeParam>(n * n);
      x[place] = bad;
      const std::vector<TypeParam> q = orthonormalized(n, x.data());
      EXPECT_FALSE(std::ranges::all_of(q, [](TypeParam e) { return std::isfinite(e); })) << place;
    }
}

TYPED_TEST(Householder, GivesTheSameBitsWhereverTheMatrixLies) {
  const std::int64_t n = 100;
  const std::vector<TypeParam> x = Numbers(9).some<TypeParam>(n * n);
  const std::vector<TypeParam> expected = orthonormalized(n, x.data());
  for (std::size_t offset = 1; offset < 4; ++offset) {
    std::vector<TypeParam> moved(offset);
    moved.insert(moved.end(), x.begin(), x.end());
    EXPECT_EQ(orthonormalized(n, moved.data() + offset), expected) << offset;
  }
}

}  // namespace
}  // namespace shampoo::test
