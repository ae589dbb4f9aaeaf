// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/blas/reflections.h"
#include "kernels/cpu/blas/small_product_tiles.h"

/// Bodies of ReflectionsIn. Internal linkage: each level of the instruction set keeps its own
/// compiled copy.
namespace shampoo::kernels {
namespace {

template <typename Real, int bytes = vector_bytes>
inline Real sum_of_lanes(typename Vector<Real, bytes>::type x) {
  if constexpr (bytes == 2 * sizeof(Real)) {
    return x[0] + x[1];
  } else {
    typename Vector<Real, bytes / 2>::type low, high;
    __builtin_memcpy(&low, &x, bytes / 2);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&x) + bytes / 2, bytes / 2);
    return sum_of_lanes<Real, bytes / 2>(low + high);
  }
}

/// r <- r - tau (r v^T) v for `count` rows r; v is zero before `first`.
template <typename Real, int count>
inline void reflect_rows(const Real* v, Real tau, Real* rows, std::int64_t stride,
                         std::int64_t first, std::int64_t length) {
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  V sums[count] = {};
  for (std::int64_t k = first; k < length; k += lanes) {
    const V along = *reinterpret_cast<const V*>(v + k);
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i)
      sums[i] += along * *reinterpret_cast<const V*>(rows + i * stride + k);
  }
  Real factors[count];
#pragma GCC unroll 8
  for (int i = 0; i < count; ++i) factors[i] = tau * sum_of_lanes<Real>(sums[i]);
  for (std::int64_t k = first; k < length; k += lanes) {
    const V along = *reinterpret_cast<const V*>(v + k);
#pragma GCC unroll 8
    for (int i = 0; i < count; ++i)
      *reinterpret_cast<V*>(rows + i * stride + k) -= factors[i] * along;
  }
}

/// Of rows with zeros up to the last vector.
template <typename Real>
inline Real largest_element(const Real* x, std::int64_t stride) {
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  V largest = {};
  for (std::int64_t k = 0; k < stride; k += lanes) {
    const V here = *reinterpret_cast<const V*>(x + k);
    const V size = here < 0 ? -here : here;
    largest = size > largest ? size : largest;
  }
  Real one[lanes];
  __builtin_memcpy(one, &largest, sizeof(one));
  return *std::max_element(one, one + lanes);
}

template <typename Real>
inline void scale_row(Real* v, std::int64_t n, std::int64_t stride) {
  std::fill(v + n, v + stride, Real(0));
  const Real largest = largest_element(v, stride);
  if (!(largest > 0) || !std::isfinite(largest)) return;
  // In two factors: one alone may not be representable.
  const int exponent = -std::ilogb(largest);
  const Real first = std::ldexp(Real(1), exponent / 2);
  const Real second = std::ldexp(Real(1), exponent - exponent / 2);
  for (std::int64_t i = 0; i < n; ++i) v[i] = v[i] * first * second;
}

template <typename Real>
void load_rows(const Real* x, std::int64_t n, Real* v, std::int64_t stride) {
  for (std::int64_t i = 0; i < n; ++i) {
    std::copy(x + i * n, x + (i + 1) * n, v + i * stride);
    scale_row(v + i * stride, n, stride);
  }
}

template <typename Real>
inline Real squared_sum(const Real* x, std::int64_t first, std::int64_t length) {
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  V sum = {};
  for (std::int64_t k = first; k < length; k += lanes) {
    const V here = *reinterpret_cast<const V*>(x + k);
    sum += here * here;
  }
  return sum_of_lanes<Real>(sum);
}

/// H = I - tau v^T v, after which element j of a row is beta and those behind it are zero.
template <typename Real>
struct Reflection {
  Real tau, beta;
};

/// Row <- v. `first`: the row's vector that holds its element j.
template <typename Real>
Reflection<Real> make_reflection(Real* row, std::int64_t j, std::int64_t first,
                                 std::int64_t length) {
  constexpr double range = std::numeric_limits<Real>::min_exponent / 2;
  const Real row_j = row[j];
  const auto alpha = static_cast<double>(row_j);
  std::fill(row, row + j + 1, Real(0));
  const double rest = static_cast<double>(squared_sum(row, first, length));
  const double all = rest + alpha * alpha;
  Reflection<Real> made{0, row_j};
  if (rest == 0 || all < std::exp2(range)) {
    // Nothing but what rounding left of a row of the size of 1.
    std::fill(row + j + 1, row + length, Real(0));
  } else {
    const double beta = -std::copysign(std::sqrt(all), alpha);
    made = {static_cast<Real>((beta - alpha) / beta), static_cast<Real>(beta)};
    const Real factor = static_cast<Real>(1 / (alpha - beta));
    for (std::int64_t k = first; k < length; ++k) row[k] *= factor;
  }
  row[j] = 1;
  return made;
}

template <typename Real>
void reflect(Real* rows, std::int64_t count, std::int64_t length, std::int64_t stride, Real* taus) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t all = (length + lanes - 1) / lanes * lanes;
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t first = j / lanes * lanes;
    const Real* const v = rows + j * stride;
    const Real tau = taus[j] = make_reflection(rows + j * stride, j, first, all).tau;
    std::int64_t i = j + 1;
    for (; i + 8 <= count; i += 8)
      reflect_rows<Real, 8>(v, tau, rows + i * stride, stride, first, all);
    if (i + 4 <= count) {
      reflect_rows<Real, 4>(v, tau, rows + i * stride, stride, first, all);
      i += 4;
    }
    for (; i < count; ++i) reflect_rows<Real, 1>(v, tau, rows + i * stride, stride, first, all);
  }
}

template <typename Real>
void form_t(std::int64_t b, const Real* gram, const Real* taus, Real* tt) {
  std::fill(tt, tt + b * b, Real(0));
  for (std::int64_t i = 0; i < b; ++i) {
    Real* const column = tt + i * b;
    for (std::int64_t k = 0; k < i; ++k) {
      const Real factor = -taus[i] * gram[i * b + k];
      for (std::int64_t r = 0; r < b; ++r) column[r] += factor * tt[k * b + r];
    }
    column[i] = taus[i];
  }
}

}  // namespace
}  // namespace shampoo::kernels
