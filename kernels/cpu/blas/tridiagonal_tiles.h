// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cpu/blas/reflection_tiles.h"
#include "kernels/cpu/simd/vector_transpose.h"

/// Bodies of ReflectionsIn. Internal linkage: see reflection_tiles.h.
namespace shampoo::kernels {
namespace {

/// Vectors of the last reflection, whose A <- A - v^T w - w^T v is still due, and of the next one,
/// with the product y = v A that it needs.
template <typename Real>
struct Sweep {
  const Real *due_v, *due_w, *v;
  Real* y;
  std::int64_t stride, length;
};

/// For `count` rows of A from i on, which lie in the rows of one tile: the update that is due, then
/// y <- y + v A. A tile on the diagonal has both triangles; later elements of a row stand for those
/// of the column, too.
template <typename Real, int count>
inline void sweep_rows(const Sweep<Real>& s, Real* a, std::int64_t i) {
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t length = s.length;
  const Real *const due_v = s.due_v, *const due_w = s.due_w, *const v = s.v;
  Real* const y = s.y;
  Real* rows[count];
  Real row_due_v[count], row_due_w[count], row_v[count];
  V sums[count] = {};
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) {
    rows[r] = a + (i + r) * s.stride;
    row_due_v[r] = due_v[i + r];
    row_due_w[r] = due_w[i + r];
    row_v[r] = v[i + r];
  }
  std::int64_t k = i / lanes * lanes;
  for (const std::int64_t diagonal = k; k < length; k += lanes) {
    const V along_due_v = *reinterpret_cast<const V*>(due_v + k);
    const V along_due_w = *reinterpret_cast<const V*>(due_w + k);
    const V along_v = *reinterpret_cast<const V*>(v + k);
    V products = {};
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) {
      V here = *reinterpret_cast<const V*>(rows[r] + k);
      here -= row_due_v[r] * along_due_w;
      here -= row_due_w[r] * along_due_v;
      *reinterpret_cast<V*>(rows[r] + k) = here;
      sums[r] += here * along_v;
      products += row_v[r] * here;
    }
    if (k > diagonal) *reinterpret_cast<V*>(y + k) += products;
  }
#pragma GCC unroll 4
  for (int r = 0; r < count; ++r) y[i + r] += sum_of_lanes<Real>(sums[r]);
}

template <typename Real>
inline void sweep(const Sweep<Real>& s, Real* a, std::int64_t first, std::int64_t n) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  for (std::int64_t i = first; i < n;) {
    const std::int64_t end = std::min(n, (i / lanes + 1) * lanes);
    for (; i + 4 <= end; i += 4) sweep_rows<Real, 4>(s, a, i);
    for (; i < end; ++i) sweep_rows<Real, 1>(s, a, i);
  }
}

/// w <- tau y - tau^2 (y v^T) v / 2, in place of y
template <typename Real>
inline void finish_w(const Real* v, Real tau, Real* y, std::int64_t first, std::int64_t length) {
  Real product = 0;
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  V sum = {};
  for (std::int64_t k = first; k < length; k += lanes)
    sum += *reinterpret_cast<const V*>(v + k) * *reinterpret_cast<const V*>(y + k);
  product = sum_of_lanes<Real>(sum);
  const Real along = tau * tau * product / 2;
  for (std::int64_t k = first; k < length; ++k) y[k] = tau * y[k] - along * v[k];
}

/// One pass over A for each reflection: it is updated for the last one and multiplied by the next.
template <typename Real>
void tridiagonalize(Real* a, std::int64_t n, std::int64_t stride, double* d, double* e, Real* taus,
                    Real* scratch) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t length = (n + lanes - 1) / lanes * lanes;
  Real *w = scratch, *y = scratch + stride;
  std::fill(scratch, scratch + 2 * stride, Real(0));
  const Real* v = w;
  for (std::int64_t j = 0; j < n; ++j) {
    Real* const row = a + j * stride;
    for (std::int64_t k = j; k < length; ++k) row[k] -= v[j] * w[k] + w[j] * v[k];
    d[j] = static_cast<double>(row[j]);
    if (j + 1 == n) break;
    const std::int64_t first = (j + 1) / lanes * lanes;
    const Reflection<Real> made = make_reflection(row, j + 1, first, length);
    taus[j] = made.tau;
    e[j] = static_cast<double>(made.beta);
    std::fill(y + first, y + length, Real(0));
    sweep<Real>({v, w, row, y, stride, length}, a, j + 1, n);
    finish_w(row, made.tau, y, first, length);
    v = row;
    std::swap(w, y);
  }
}

template <typename Real>
ReflectionsIn<Real> reflections_in() {
  return {load_rows<Real>, reflect<Real>, form_t<Real>, tridiagonalize<Real>, transpose<Real>};
}

}  // namespace
}  // namespace shampoo::kernels
