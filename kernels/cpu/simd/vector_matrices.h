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

/// L <- keep L + add C in the lower triangle of a factor; c(i, j): an element, or a vector from it
/// on
template <typename Real, typename Element, typename Elements>
inline void add_to_triangle(Real* factor, bool packed, std::int64_t side, Real keep,
                            const Element& element, const Elements& elements) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  for (std::int64_t i = 0; i < side; ++i) {
    Real* const row = factor + triangle_row(packed, side, i);
    std::int64_t j = 0;
    // What lies behind the triangle's row, in this array and row, is written as it was.
    for (; j <= i && j + lanes <= side; j += lanes) {
      const auto old = load(row + j);
      store(first_lanes<Real>(i + 1 - j, keep * old + elements(i, j), old), row + j);
    }
    for (; j <= i; ++j) row[j] = keep * row[j] + element(i, j);
  }
}

template <typename Real>
void rank_one(Real* factor, bool packed, std::int64_t side, const Real* g, Real keep, Real add) {
  add_to_triangle(
      factor, packed, side, keep,
      [&](std::int64_t i, std::int64_t j) { return (add * g[i]) * g[j]; },
      [&](std::int64_t i, std::int64_t j) { return (add * g[i]) * load(g + j); });
}

template <typename Real>
void blend(Real* factor, bool packed, std::int64_t side, const Real* c, Real keep, Real add) {
  add_to_triangle(
      factor, packed, side, keep,
      [&](std::int64_t i, std::int64_t j) { return add * c[i * side + j]; },
      [&](std::int64_t i, std::int64_t j) { return add * load(c + i * side + j); });
}

/// `to`, both triangles, <- the symmetric matrix of which `from` has the upper, or lower, one; in
/// place, too.
template <bool upper, typename Real>
void mirror(const Real* from, std::int64_t stride, Real* to, std::int64_t side) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t whole = side / lanes * lanes;
  for (std::int64_t top = 0; top < whole; top += lanes)
    for (std::int64_t left = top; left < whole; left += lanes) {
      const std::int64_t row = upper ? top : left, column = upper ? left : top;
      typename Vector<Real>::type square[lanes], transposed[lanes];
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < lanes; ++i)
        transposed[i] = square[i] = load(from + (row + i) * stride + column);
      exchange_lanes<Real, 1>(transposed);
      if (left == top)
#pragma GCC unroll 16
        for (std::int64_t i = 0; i < lanes; ++i)
          square[i] = upper ? first_lanes<Real>(i, transposed[i], square[i])
                            : first_lanes<Real>(i, square[i], transposed[i]);
#pragma GCC unroll 16
      for (std::int64_t i = 0; i < lanes; ++i) {
        if (left != top) store(transposed[i], to + (column + i) * side + row);
        store(square[i], to + (row + i) * side + column);
      }
    }
  for (std::int64_t i = 0; i < side; ++i)
    for (std::int64_t j = i < whole ? whole : i; j < side; ++j)
      to[i * side + j] = to[j * side + i] = from[upper ? i * stride + j : j * stride + i];
}

/// The root of a pair array, both triangles.
template <typename Real>
void mirror_root(const Real* pair, std::int64_t side, Real* dense) {
  mirror<true>(pair + 1, side + 1, dense, side);
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
  mirror<false>(dense, side, dense, side);
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
