// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/blas/small_product_tiles.h"

/// Bodies of Reflections. Internal linkage: each level of the instruction set keeps its own
/// compiled copy.
namespace shampoo::kernels {
namespace {

template <typename Real, int bytes>
struct Lanes {
  typedef Real type __attribute__((vector_size(bytes)));
};

template <typename Real, int bytes = vector_bytes>
inline Real sum_of_lanes(typename Lanes<Real, bytes>::type x) {
  if constexpr (bytes == 2 * sizeof(Real)) {
    return x[0] + x[1];
  } else {
    typename Lanes<Real, bytes / 2>::type low, high;
    __builtin_memcpy(&low, &x, bytes / 2);
    __builtin_memcpy(&high, reinterpret_cast<const char*>(&x) + bytes / 2, bytes / 2);
    return sum_of_lanes<Real, bytes / 2>(low + high);
  }
}

/// r <- r - tau (r v^T) v for `count` rows r; v is zero before `first`.
template <typename Real, int count>
inline void reflect_rows(const Real* v, Real tau, Real* rows, std::int64_t stride,
                         std::int64_t first, std::int64_t length) {
  using V = typename Lanes<Real, vector_bytes>::type;
  constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Real));
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

template <typename Real>
inline Real squared_sum(const Real* x, std::int64_t first, std::int64_t length) {
  using V = typename Lanes<Real, vector_bytes>::type;
  constexpr int lanes = vector_bytes / static_cast<int>(sizeof(Real));
  V sum = {};
  for (std::int64_t k = first; k < length; k += lanes) {
    const V here = *reinterpret_cast<const V*>(x + k);
    sum += here * here;
  }
  return sum_of_lanes<Real>(sum);
}

/// Makes the elements behind `alpha` neither too large nor too small to be squared; returns false
/// if they are zeros.
template <typename Real>
bool rescale_tail(Real* row, std::int64_t j, std::int64_t length, Real& alpha) {
  constexpr int widest = std::numeric_limits<Real>::max_exponent * 3 / 4;
  Real largest = 0;
  bool zeros = true;
  for (std::int64_t k = j + 1; k < length; ++k) {
    zeros = zeros && row[k] == 0;
    largest = std::max(largest, std::abs(row[k]));
  }
  if (zeros) return false;
  largest = std::max(largest, std::abs(alpha));
  if (!std::isfinite(largest)) return true;
  const Real scale = std::ldexp(Real(1), std::clamp(-std::ilogb(largest), -widest, widest));
  for (std::int64_t k = j + 1; k < length; ++k) row[k] *= scale;
  alpha *= scale;
  return true;
}

/// Row <- v of I - tau v^T v; returns tau. `first`: the row's vector that holds its element j.
template <typename Real>
Real make_reflection(Real* row, std::int64_t j, std::int64_t first, std::int64_t length) {
  constexpr int range = std::numeric_limits<Real>::max_exponent / 2;
  const Real smallest = std::ldexp(Real(1), -range), largest = std::ldexp(Real(1), range);
  Real alpha = row[j];
  std::fill(row, row + j + 1, Real(0));
  Real rest = squared_sum(row, first, length);
  Real tau = 0;
  bool reflects = true;
  if (!(rest > smallest && rest + alpha * alpha < largest)) {
    reflects = rescale_tail(row, j, length, alpha);
    rest = squared_sum(row, first, length);
  }
  if (reflects) {
    const double all =
        static_cast<double>(rest) + static_cast<double>(alpha) * static_cast<double>(alpha);
    const double beta = -std::copysign(std::sqrt(all), static_cast<double>(alpha));
    tau = static_cast<Real>((beta - static_cast<double>(alpha)) / beta);
    const Real factor = static_cast<Real>(1 / (static_cast<double>(alpha) - beta));
    for (std::int64_t k = first; k < length; ++k) row[k] *= factor;
  }
  row[j] = 1;
  return tau;
}

template <typename Real>
void reflect(Real* rows, std::int64_t count, std::int64_t length, std::int64_t stride, Real* taus) {
  constexpr std::int64_t lanes = vector_bytes / sizeof(Real);
  const std::int64_t all = (length + lanes - 1) / lanes * lanes;
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t first = j / lanes * lanes;
    const Real* const v = rows + j * stride;
    const Real tau = taus[j] = make_reflection(rows + j * stride, j, first, all);
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

}  // namespace
}  // namespace shampoo::kernels
