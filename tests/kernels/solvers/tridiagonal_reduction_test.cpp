// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/cpu/threads/scratch.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/solvers/reflection_levels.h"
#include "tests/kernels/spectra.h"

// The reduction is backward stable [Golub 2013, ch. 8.3.1]: Q T Q^T = A + E with |E| at most about
// n epsilon |A| in the Frobenius norm; the factor 4 covers the constants.

namespace shampoo::test {
namespace {

double norm(const Matrix& a) {
  double sum = 0;
  for (const double x : a) sum += x * x;
  return std::sqrt(sum);
}

/// A matrix with T, the reflections and what was reduced, copied to rows of their own.
template <typename Real>
struct Reduced {
  std::vector<double> d, e;
  std::vector<Real> taus;
  std::vector<std::vector<Real>> rows;  ///< with their padding
};

template <typename Real>
Reduced<Real> reduce(const kernels::Reflections& level, const Matrix& a, std::int64_t n) {
  const std::int64_t stride = kernels::reflection_stride<Real>(n);
  kernels::Scratch scratch;
  scratch.reserve(kernels::scratch_bytes<Real>((n + 2) * stride));
  Real* const rows = scratch.take<Real>(n * stride);
  std::fill(rows, rows + n * stride, Real(0));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      rows[i * stride + j] = static_cast<Real>(a[static_cast<std::size_t>(i * n + j)]);
  const auto count = static_cast<std::size_t>(n);
  Reduced<Real> to{Matrix(count), Matrix(count), std::vector<Real>(count), {}};
  const auto run = [&](const auto& in) {
    in.tridiagonalize(rows, n, stride, to.d.data(), to.e.data(), to.taus.data(),
                      scratch.take<Real>(2 * stride));
  };
  if constexpr (std::is_same_v<Real, float>)
    run(level.in_float);
  else
    run(level.in_double);
  for (std::int64_t i = 0; i < n; ++i)
    to.rows.emplace_back(rows + i * stride, rows + (i + 1) * stride);
  return to;
}

/// Q T Q^T in double precision.
template <typename Real>
Matrix product(const Reduced<Real>& reduced, std::size_t n) {
  Matrix x(n * n);
  for (std::size_t i = 0; i < n; ++i) {
    x[i * n + i] = reduced.d[i];
    if (i + 1 < n) x[i * n + i + 1] = x[(i + 1) * n + i] = reduced.e[i];
  }
  for (std::size_t j = n - 1; j-- > 0;) {
    const std::vector<Real>& v = reduced.rows[j];
    const double tau = static_cast<double>(reduced.taus[j]);
    for (const bool by_rows : {true, false})
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t begin = by_rows ? i * n : i, step = by_rows ? 1 : n;
        double along = 0;
        for (std::size_t k = 0; k < n; ++k)
          along += x[begin + k * step] * static_cast<double>(v[k]);
        for (std::size_t k = 0; k < n; ++k)
          x[begin + k * step] -= tau * along * static_cast<double>(v[k]);
      }
  }
  return x;
}

template <typename Element>
Matrix symmetric(std::int64_t n, const Element& element) {
  Matrix a;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      a.push_back(static_cast<double>(static_cast<float>(element(std::min(i, j), std::max(i, j)))));
  return a;
}

std::vector<Matrix> matrices_of(std::int64_t n) {
  const std::vector<double> random = Numbers(5).some<double>(n * n);
  const auto at = [&](std::int64_t i, std::int64_t j) {
    return random[static_cast<std::size_t>(i * n + j)];
  };
  return {symmetric(n, at),
          symmetric(n, [](std::int64_t, std::int64_t) { return 0.0; }),
          symmetric(n, [](std::int64_t i, std::int64_t j) { return i == j ? 1.0 : 0.0; }),
          symmetric(n, [](std::int64_t, std::int64_t) { return 1.0; }),
          symmetric(n, [&](std::int64_t i, std::int64_t j) { return at(0, i) * at(0, j); }),
          symmetric(
              n, [](std::int64_t i, std::int64_t j) { return 1 / static_cast<double>(i + j + 1); }),
          symmetric(n, [&](std::int64_t i, std::int64_t j) {
            return at(i, j) * std::exp2(-static_cast<double>(i + j) / 2);
          })};
}

template <typename Real>
class TridiagonalReduction : public testing::Test {};
using Reals = testing::Types<float, double>;
TYPED_TEST_SUITE(TridiagonalReduction, Reals);

TYPED_TEST(TridiagonalReduction, IsBackwardStableAtEveryLevelOfTheInstructionSet) {
  using Real = TypeParam;
  const double epsilon = static_cast<double>(std::numeric_limits<Real>::epsilon());
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 16, 17, 31, 33, 64, 130})
    for (const Matrix& a : matrices_of(n))
      for (const kernels::Reflections& level : reflection_levels()) {
        const Reduced<Real> reduced = reduce<Real>(level, a, n);
        Matrix error = product(reduced, static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < a.size(); ++i) error[i] -= a[i];
        EXPECT_LE(norm(error), 4 * static_cast<double>(n) * epsilon * norm(a)) << "side " << n;
      }
}

TYPED_TEST(TridiagonalReduction, LeavesUnitVectorsWithZerosAround) {
  using Real = TypeParam;
  const std::int64_t n = 37;
  for (const kernels::Reflections& level : reflection_levels()) {
    const Reduced<Real> reduced = reduce<Real>(level, matrices_of(n).front(), n);
    for (std::size_t j = 0; j + 1 < static_cast<std::size_t>(n); ++j) {
      const std::vector<Real>& v = reduced.rows[j];
      EXPECT_EQ(std::ranges::count(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(j) + 1, 0),
                static_cast<std::ptrdiff_t>(j) + 1);
      EXPECT_EQ(v[j + 1], Real(1));
      EXPECT_EQ(std::ranges::count(v.begin() + n, v.end(), 0), std::ssize(v) - n);
    }
  }
}

}  // namespace
}  // namespace shampoo::test
