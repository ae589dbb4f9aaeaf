// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_access.h"
#include "kernels/solvers/solver_arguments.h"

/// Sums of resolvents of a tridiagonal matrix. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

/// Columns whose sums stay in registers.
constexpr std::int64_t resolvent_columns = 64;

/// Of (T + s I)^-1 for every pole s: its diagonal times the pole's weight, and the ratio of an
/// element above it to the one below that, -e_i / p_i, with the pivots p of elimination from the
/// top and q from the bottom [Meurant 1992]:
///
///     p_i = d_i + s - e_(i-1)^2 / p_(i-1) ;  q_i = d_i + s - e_i^2 / q_(i+1)
///     diagonal_i = weight / (p_i + q_i - d_i - s)
template <typename Real>
void eliminate(const TridiagonalMatrix& t, const Poles& poles, double* __restrict pivots,
               Real* __restrict ratios, Real* __restrict diagonals) {
  const std::int64_t n = t.side, count = poles.count;
  for (std::int64_t i = 0; i < n; ++i) {
    const double below = i == 0 ? 0 : t.e[i - 1] * t.e[i - 1];
    const double* const before = pivots + (i == 0 ? 0 : i - 1) * count;
    for (std::int64_t k = 0; k < count; ++k)
      pivots[i * count + k] = (t.d[i] + poles.poles[k]) - (i == 0 ? 0 : below / before[k]);
  }
  double from_bottom[most_partial_fractions];
  for (std::int64_t i = n - 1; i >= 0; --i) {
    const double e = i == n - 1 ? 0 : t.e[i];
    for (std::int64_t k = 0; k < count; ++k) {
      const double d = t.d[i] + poles.poles[k], p = pivots[i * count + k];
      const double correction = i == n - 1 ? 0 : e * e / from_bottom[k];
      from_bottom[k] = d - correction;
      ratios[i * count + k] = static_cast<Real>(-e / p);
      diagonals[i * count + k] = static_cast<Real>(poles.weights[k] / (p - correction));
    }
  }
}

/// Elements of one column above the diagonal have one sign for all poles: nothing cancels.
template <typename Real>
void sum_resolvents(const TridiagonalMatrix& t, const Poles& poles, double* pivots, Real* scratch,
                    Real* x) {
  const std::int64_t n = t.side, count = poles.count;
  Real* const ratios = scratch;
  Real* const diagonals = ratios + n * count;
  Real* const rows = diagonals + n * count;
  eliminate(t, poles, pivots, ratios, diagonals);
  for (std::int64_t first = 0; first < n; first += resolvent_columns) {
    const std::int64_t columns = least(resolvent_columns, n - first);
    for (std::int64_t j = 0; j < count * resolvent_columns; ++j) rows[j] = 0;
    for (std::int64_t i = first + columns - 1; i >= 0; --i) {
      Real sums[resolvent_columns] = {};
      for (std::int64_t k = 0; k < count; ++k) {
        Real* const row = rows + k * resolvent_columns;
        const Real ratio = ratios[i * count + k];
        for (std::int64_t j = 0; j < resolvent_columns; ++j) row[j] *= ratio;
        if (i >= first) row[i - first] = diagonals[i * count + k];
        for (std::int64_t j = 0; j < resolvent_columns; ++j) sums[j] += row[j];
      }
      for (std::int64_t j = i > first ? i - first : 0; j < columns; ++j)
        x[i * n + first + j] = x[(first + j) * n + i] = sums[j];
    }
  }
}

}  // namespace
}  // namespace shampoo::kernels
