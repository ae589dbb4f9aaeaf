// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/simd/vector_lanes.h"

/// Products of matrices that fit into the first-level cache, without packing. Every element is
/// sum_k a_ik b_kj with k ascending, fused where the processor can, whatever the vectors: results
/// do not depend on how the matrix is cut into tiles. Internal linkage: each level of the
/// instruction set keeps its own compiled copy.
namespace shampoo::kernels {
namespace {

constexpr int most_vectors = vector_bytes == 64 ? 4 : 2;  // of 32 registers, or 16
constexpr int tile_rows = 6;

/// A tile of C: 6 rows of `vectors` vectors. a: its first row of A; b: its first column of B.
template <typename Real, int vectors>
inline void multiply_tile(const Real* a, const Real* b, Real* c, std::int64_t n) {
  using V = typename Vector<Real>::type;
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  V sums[tile_rows][vectors] = {};
  for (std::int64_t k = 0; k < n; ++k) {
    V right[vectors];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) right[v] = load(b + k * n + v * lanes);
#pragma GCC unroll 6
    for (int i = 0; i < tile_rows; ++i)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) sums[i][v] += a[i * n + k] * right[v];
  }
  for (int i = 0; i < tile_rows; ++i)
    for (int v = 0; v < vectors; ++v) store<Real>(sums[i][v], c + i * n + v * lanes);
}

/// Six rows of C.
template <typename Real>
inline void multiply_rows(const Real* a, const Real* b, Real* c, std::int64_t n) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  for (std::int64_t j = 0; j < n;) {
    // The last tile overlaps the one before it.
    if (n - j < lanes) j = n - lanes;
    const auto across = static_cast<int>(std::min<std::int64_t>(most_vectors, (n - j) / lanes));
    with_vectors<most_vectors>(
        across, [&]<int vectors>() { multiply_tile<Real, vectors>(a, b + j, c + j, n); });
    j += across * lanes;
  }
}

/// Sides up to the length of a vector.
template <typename Real>
inline void multiply_short_rows(const Real* a, const Real* b, Real* c, std::int64_t n) {
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(Real);
  typename Vector<Real>::type rows[vector_bytes / sizeof(Real)] = {};
  for (std::int64_t k = 0; k < n; ++k) __builtin_memcpy(&rows[k], b + k * n, bytes);
  for (std::int64_t i = 0; i < n; ++i) {
    typename Vector<Real>::type sum = {};
    for (std::int64_t k = 0; k < n; ++k) sum += a[i * n + k] * rows[k];
    __builtin_memcpy(c + i * n, &sum, bytes);
  }
}

/// C <- A B, row-major n x n; C is no operand.
template <typename Real>
void multiply_small(const Real* a, const Real* b, Real* c, std::int64_t n) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  if (n <= lanes) return multiply_short_rows(a, b, c, n);
  if (n >= tile_rows) {
    // The last tile overlaps the one before it.
    for (std::int64_t i = 0; i < n; i += tile_rows) {
      const std::int64_t first = std::min<std::int64_t>(i, n - tile_rows);
      multiply_rows(a + first * n, b, c + first * n, n);
    }
    return;
  }
  std::fill(c, c + n * n, Real(0));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t k = 0; k < n; ++k)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

}  // namespace
}  // namespace shampoo::kernels
