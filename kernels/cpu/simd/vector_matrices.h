// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_sums.h"
#include "kernels/rules/arithmetic.h"
#include "kernels/rules/triangle_rule.h"

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
