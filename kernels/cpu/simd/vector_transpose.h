// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/simd/vector_lanes.h"

/// Transposes of squares of one vector's lanes. Internal linkage: see vector_access.h.
namespace shampoo::kernels {
namespace {

/// Lanes of a and b with the step's bit, or without it, side by side.
template <std::size_t step, bool second, typename V, std::size_t... lane>
inline V interleaved(V a, V b, std::index_sequence<lane...>) {
  constexpr std::size_t lanes = sizeof...(lane);
  return __builtin_shufflevector(a, b,
                                 (second ? ((lane & step) != 0 ? lanes + lane : lane + step)
                                         : ((lane & step) != 0 ? lanes + lane - step : lane))...);
}

template <typename Real, std::size_t step>
inline void exchange_lanes(typename Vector<Real>::type* rows) {
  constexpr std::size_t lanes = Vector<Real>::lanes;
  if constexpr (step < lanes) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < lanes; ++i) {
      if ((i & step) != 0) continue;
      const auto a = rows[i], b = rows[i + step];
      rows[i] = interleaved<step, false>(a, b, std::make_index_sequence<lanes>());
      rows[i + step] = interleaved<step, true>(a, b, std::make_index_sequence<lanes>());
    }
    exchange_lanes<Real, 2 * step>(rows);
  }
}

/// to <- the transpose of a square of as many rows as a vector has lanes
template <typename Real>
inline void transpose_square(const Real* from, std::int64_t stride, Real* to,
                             std::int64_t to_stride) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  typename Vector<Real>::type rows[lanes];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i)
    __builtin_memcpy(&rows[i], from + i * stride, vector_bytes);
  exchange_lanes<Real, 1>(rows);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i)
    __builtin_memcpy(to + i * to_stride, &rows[i], vector_bytes);
}

/// to <- the transpose of rows x columns elements; strides are those between rows.
template <typename Real>
inline void transpose(const Real* from, std::int64_t rows, std::int64_t columns,
                      std::int64_t stride, Real* to, std::int64_t to_stride) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t whole_rows = rows / lanes * lanes, whole = columns / lanes * lanes;
  for (std::int64_t i = 0; i < whole_rows; i += lanes)
    for (std::int64_t j = 0; j < whole; j += lanes)
      transpose_square(from + i * stride + j, stride, to + j * to_stride + i, to_stride);
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = i < whole_rows ? whole : 0; j < columns; ++j)
      to[j * to_stride + i] = from[i * stride + j];
}

}  // namespace
}  // namespace shampoo::kernels
