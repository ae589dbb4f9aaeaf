// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/cpu/simd/vector_transpose.h"
#include "kernels/rules/arithmetic.h"
#include "kernels/rules/factor_layout.h"

/// Loops over the arrays of factors (see Stack::factors) and of eigenbases. Internal linkage: see
/// vector_access.h.
namespace shampoo::kernels {
namespace {

template <typename Real>
double squared_norm(const Real* x, std::int64_t count) {
  ProductSum sum;
  sum.add(x, x, count);
  return sum.total();
}

template <typename Real>
void rank_one(Real* factor, bool packed, std::int64_t side, const Real* __restrict g, Real keep,
              Real add) {
  for (std::int64_t i = 0; i < side; ++i) {
    Real* __restrict row = factor + triangle_row(packed, side, i);
    const Real scaled = add * g[i];
    for (std::int64_t j = 0; j <= i; ++j) row[j] = keep * row[j] + scaled * g[j];
  }
}

template <typename Real>
void blend(Real* factor, bool packed, std::int64_t side, const Real* __restrict c, Real keep,
           Real add) {
  for (std::int64_t i = 0; i < side; ++i) {
    Real* __restrict row = factor + triangle_row(packed, side, i);
    const Real* __restrict other = c + i * side;
    for (std::int64_t j = 0; j <= i; ++j) row[j] = keep * row[j] + add * other[j];
  }
}

/// The other triangle of a symmetric matrix <- its upper, or lower, one
template <bool upper, typename Real>
void complete(Real* dense, std::int64_t side) {
  constexpr std::int64_t tile = Vector<Real>::lanes;
  const auto put = [&](std::int64_t i, std::int64_t j) {
    dense[upper ? j * side + i : i * side + j] = dense[upper ? i * side + j : j * side + i];
  };
  const std::int64_t whole = side / tile * tile;
  for (std::int64_t top = 0; top < whole; top += tile) {
    for (std::int64_t i = top; i < top + tile; ++i)
      for (std::int64_t j = i + 1; j < top + tile; ++j) put(i, j);
    for (std::int64_t left = top + tile; left < whole; left += tile) {
      Real* const right_of = dense + top * side + left;
      Real* const below = dense + left * side + top;
      transpose_square(upper ? right_of : below, side, upper ? below : right_of, side);
    }
  }
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = i < whole ? whole : i + 1; j < side; ++j) put(i, j);
}

/// The root of a pair array, both triangles.
template <typename Real>
void mirror_root(const Real* pair, std::int64_t side, Real* __restrict dense) {
  for (std::int64_t i = 0; i < side; ++i) {
    const Real* const row = pair + i * (side + 1) + 1;
    for (std::int64_t j = i; j < side; ++j) dense[i * side + j] = row[j];
  }
  complete<true>(dense, side);
}

/// The root of an array with_float16_root, both triangles.
template <typename Real>
void widen_root(const Real* array, std::int64_t side, Real* __restrict dense) {
  const Real* const d = scales_of(array, side);
  const Float16* const c = float16_root_of(array, side);
  for (std::int64_t i = 0; i < side; ++i) {
    const Float16* const row = c + triangle_row(true, side, i);
    Real* const to = dense + i * side;
    const Real d_i = d[i];
    for (std::int64_t j = 0; j <= i; ++j) to[j] = real<Real>(row[j]) * (d_i * d[j]);
  }
  complete<false>(dense, side);
}

/// Row i of the upper triangle serves y_i and, being also column i, all later elements of y.
template <typename Real>
void apply_root(const Real* pair, std::int64_t side, const Real* __restrict x, Real* __restrict y) {
  for (std::int64_t i = 0; i < side; ++i) y[i] = 0;
  for (std::int64_t i = 0; i < side; ++i) {
    const Real* __restrict row = pair + i * (side + 1) + 1;
    ProductSum dot;
    dot.add(row + i, x + i, side - i);
    const Real xi = x[i];
    for (std::int64_t j = i + 1; j < side; ++j) y[j] += xi * row[j];
    y[i] += static_cast<Real>(dot.total());
  }
}

}  // namespace
}  // namespace shampoo::kernels
