// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/cpu/eigen.h"

namespace shampoo::kernels {

namespace {

template <typename Real>
struct Rotation {
  Real cosine, sine;
};

/// The rotation that makes a_pq zero, by the smaller angle.
template <typename Real>
Rotation<Real> rotation(Real app, Real apq, Real aqq) {
  const Real theta = (aqq - app) / (2 * apq);
  const Real root = std::hypot(theta, Real(1));
  const Real tangent = (theta < 0 ? Real(-1) : Real(1)) / (std::abs(theta) + root);
  const Real cosine = 1 / std::hypot(tangent, Real(1));
  return {cosine, tangent * cosine};
}

/// x <- c x - s y ; y <- s x + c y
template <typename Real>
void rotate(Rotation<Real> r, std::int64_t count, Real* x, Real* y, std::int64_t stride) {
  for (std::int64_t i = 0; i < count; ++i) {
    const Real xi = x[i * stride], yi = y[i * stride];
    x[i * stride] = r.cosine * xi - r.sine * yi;
    y[i * stride] = r.sine * xi + r.cosine * yi;
  }
}

/// Visits every pair once; returns whether all of them were small already.
template <typename Real>
bool sweep(std::int64_t n, Real* a, Real* vectors) {
  constexpr Real epsilon = std::numeric_limits<Real>::epsilon();
  constexpr Real least = std::numeric_limits<Real>::min();
  bool done = true;
  for (std::int64_t p = 0; p < n; ++p)
    for (std::int64_t q = p + 1; q < n; ++q) {
      const Real app = a[p * n + p], aqq = a[q * n + q], apq = a[p * n + q];
      // Relative to both diagonal elements: small eigenvalues come out accurate too.
      if (std::abs(apq) <= epsilon * std::sqrt(std::abs(app)) * std::sqrt(std::abs(aqq)) ||
          std::abs(apq) <= least)
        continue;
      done = false;
      const Rotation<Real> r = rotation(app, apq, aqq);
      rotate(r, n, a + p * n, a + q * n, 1);
      rotate(r, n, a + p, a + q, n);
      rotate(r, n, vectors + p * n, vectors + q * n, 1);
      a[p * n + q] = a[q * n + p] = 0;
    }
  return done;
}

/// values <- diagonal of A, ascending; the rows of `vectors` follow.
template <typename Real>
void sort_rows(std::int64_t n, const Real* a, Real* values, Real* vectors) {
  for (std::int64_t i = 0; i < n; ++i) values[i] = a[i * n + i];
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t least = i;
    for (std::int64_t j = i + 1; j < n; ++j)
      if (values[j] < values[least]) least = j;
    if (least == i) continue;
    std::swap(values[i], values[least]);
    std::swap_ranges(vectors + i * n, vectors + (i + 1) * n, vectors + least * n);
  }
}

}  // namespace

template <typename Real>
bool jacobi(std::int64_t side, Real* a, Real* values, Real* vectors) {
  // Convergence is quadratic after a few sweeps; the number grows with log(side).
  constexpr int most_sweeps = 60;
  const std::int64_t elements = side * side;
  for (std::int64_t i = 0; i < elements; ++i) vectors[i] = 0;
  for (std::int64_t i = 0; i < side; ++i) vectors[i * (side + 1)] = 1;

  bool done = false;
  for (int i = 0; i < most_sweeps && !done; ++i) done = sweep(side, a, vectors);
  sort_rows(side, a, values, vectors);
  std::copy(vectors, vectors + elements, a);
  return done;
}

template bool jacobi(std::int64_t, float*, float*, float*);
template bool jacobi(std::int64_t, double*, double*, double*);

}  // namespace shampoo::kernels
