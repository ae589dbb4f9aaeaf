// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/blas/block_products.h"

/// Operands of block products: packed panels, and the memory that is read next. Internal linkage:
/// see block_product_tiles.h.
namespace shampoo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int block_vector_bytes = 64, block_tile_rows = 8;  // 16 of 32 registers
#else
constexpr int block_vector_bytes = 32, block_tile_rows = 4;  // 8 of 16 registers
#endif
constexpr std::int64_t line_bytes = 64;
/// Sums shorter than this take less time than it takes to find out what is read next.
constexpr std::int64_t shortest_fetched = 128;

template <typename Real>
struct BlockVector {
  typedef Real type __attribute__((vector_size(block_vector_bytes)));
  static constexpr std::int64_t lanes = block_vector_bytes / sizeof(Real);
  static constexpr std::int64_t columns = 2 * lanes;  ///< of a tile
};

template <typename Real>
using BlockTile = typename BlockVector<Real>::type[block_tile_rows][2];

/// Addresses that are brought into the second-level cache while a tile is computed.
class Lines {
 public:
  void clear() { count_ = 0; }
  std::int64_t count() const { return count_; }
  void add(const void* address) {
    if (count_ < most) addresses_[count_++] = address;
  }
  /// Some of them, from one on.
  void fetch(std::int64_t first, std::int64_t count) const {
    for (std::int64_t i = first; i < std::min(first + count, count_); ++i)
      __builtin_prefetch(addresses_[i], 0, 2);
  }

 private:
  static constexpr std::int64_t most = 96;
  const void* addresses_[most];
  std::int64_t count_ = 0;
};

/// Memory that is read soon, in rows, a few lines at a time.
class Region {
 public:
  Region(const void* data, std::int64_t rows, std::int64_t row_bytes, std::int64_t stride_bytes)
      : row_(static_cast<const char*>(data)),
        rest_(data == nullptr ? 0 : rows),
        lines_((row_bytes + line_bytes - 1) / line_bytes),
        stride_(stride_bytes) {}

  std::int64_t lines() const { return rest_ * lines_; }

  void take(std::int64_t count, Lines& lines) {
    for (; count > 0 && rest_ > 0; --count) {
      lines.add(row_ + line_ * line_bytes);
      if (++line_ < lines_) continue;
      line_ = 0;
      row_ += stride_;
      --rest_;
    }
  }

 private:
  const char* row_;
  std::int64_t rest_, lines_, stride_, line_ = 0;
};

/// Lanes of a and b with the step's bit, or without it, side by side.
template <std::size_t step, bool second, typename V, std::size_t... lane>
inline V interleaved(V a, V b, std::index_sequence<lane...>) {
  constexpr std::size_t lanes = sizeof...(lane);
  return __builtin_shufflevector(a, b,
                                 (second ? ((lane & step) != 0 ? lanes + lane : lane + step)
                                         : ((lane & step) != 0 ? lanes + lane - step : lane))...);
}

template <typename Real, std::size_t step>
inline void exchange_lanes(typename BlockVector<Real>::type* rows) {
  constexpr std::size_t lanes = BlockVector<Real>::lanes;
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
  constexpr std::int64_t lanes = BlockVector<Real>::lanes;
  typename BlockVector<Real>::type rows[lanes];
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i)
    __builtin_memcpy(&rows[i], from + i * stride, block_vector_bytes);
  exchange_lanes<Real, 1>(rows);
#pragma GCC unroll 16
  for (std::int64_t i = 0; i < lanes; ++i)
    __builtin_memcpy(to + i * to_stride, &rows[i], block_vector_bytes);
}

/// to[k][c] <- columns [first, first + columns) of an operand with `count` of them, zeros behind.
template <typename Real>
inline void pack(const BlockOperand<Real>& x, std::int64_t depth, std::int64_t first,
                 std::int64_t count, std::int64_t columns, Real* to) {
  constexpr std::int64_t lanes = BlockVector<Real>::lanes;
  const std::int64_t width = std::min(columns, count - first);
  if (x.along_depth) {
    const Real* const from = x.data + first * x.stride;
    std::int64_t k = 0;
    if (width == columns && columns % lanes == 0)
      for (; k + lanes <= depth; k += lanes)
        for (std::int64_t c = 0; c < columns; c += lanes)
          transpose_square(from + c * x.stride + k, x.stride, to + k * columns + c, columns);
    for (; k < depth; ++k)
      for (std::int64_t c = 0; c < columns; ++c)
        to[k * columns + c] = c < width ? from[c * x.stride + k] : Real(0);
    return;
  }
  const Real* from = x.data + first;
  if (width == columns)
    for (std::int64_t k = 0; k < depth; ++k, from += x.stride, to += columns)
      __builtin_memcpy(to, from, static_cast<std::size_t>(columns) * sizeof(Real));
  else
    for (std::int64_t k = 0; k < depth; ++k, from += x.stride, to += columns)
      for (std::int64_t c = 0; c < columns; ++c) to[c] = c < width ? from[c] : Real(0);
}

}  // namespace
}  // namespace shampoo::kernels
