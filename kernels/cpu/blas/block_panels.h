// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/blas/block_products.h"

/// Packed panels of operands, and memory that is used later. Internal linkage:
/// see block_product_tiles.h.
namespace shampoo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int block_vector_bytes = 64, block_tile_rows = 8;  // 16 of 32 registers
#else
constexpr int block_vector_bytes = 32, block_tile_rows = 4;  // 8 of 16 registers
#endif
constexpr std::int64_t line_bytes = 64;
template <typename Real>
struct BlockVector {
  typedef Real type __attribute__((vector_size(block_vector_bytes)));
  static constexpr std::int64_t lanes = block_vector_bytes / sizeof(Real);
  static constexpr std::int64_t columns = 2 * lanes;  ///< of a tile
};

template <typename Real>
using BlockTileRow = typename BlockVector<Real>::type[2];
template <typename Real>
using BlockTile = BlockTileRow<Real>[block_tile_rows];

/// Brings memory into the second-level cache, a few lines at a time; what does not fit into the
/// time of a product is left.
class Prefetch {
 public:
  Prefetch(const MemoryAhead& ahead, std::int64_t times) : rows_(ahead.begin()), end_(ahead.end()) {
    std::int64_t lines = 0;
    for (const RowsAhead& some : ahead) lines += some.rows * (some.row_bytes / line_bytes + 1);
    lines_each_time_ = std::min((lines + times - 1) / times, most_lines);
    begin();
  }

  void next() {
    for (std::int64_t i = 0; i < lines_each_time_; ++i, line_ += line_bytes) {
      if (line_ >= row_ + row_bytes_ && !next_row()) return;
      __builtin_prefetch(reinterpret_cast<const void*>(line_), 0, 2);
    }
  }

 private:
  /// In the time of `depth_part` terms of a tile.
  static constexpr std::int64_t most_lines = 4;

  void begin() {
    rest_ = rows_ == end_ ? 0 : rows_->rows;
    if (rest_ > 0) at(reinterpret_cast<std::uintptr_t>(rows_->data));
  }
  void at(std::uintptr_t row) {
    row_ = row;
    row_bytes_ = static_cast<std::uintptr_t>(rows_->row_bytes);
    line_ = row / line_bytes * line_bytes;
  }
  bool next_row() {
    while (rest_ <= 1) {
      if (rows_ == end_ || ++rows_ == end_) {
        lines_each_time_ = 0;
        return false;
      }
      begin();
      if (rest_ > 0) return true;
    }
    --rest_;
    at(row_ + static_cast<std::uintptr_t>(rows_->stride_bytes));
    return true;
  }

  MemoryAhead::const_iterator rows_, end_;
  std::int64_t rest_ = 0, lines_each_time_ = 0;
  std::uintptr_t row_ = 0, row_bytes_ = 0, line_ = 0;  ///< addresses, which prefetch only
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
