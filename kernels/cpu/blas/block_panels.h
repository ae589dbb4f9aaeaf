// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/simd/vector_transpose.h"

/// Packed panels of operands, and memory that is used later. Internal linkage:
/// see block_product_tiles.h.
namespace shampoo::kernels {
namespace {

#if defined(__AVX512F__)
constexpr int block_tile_rows = 8;  // 16 of 32 registers
#else
constexpr int block_tile_rows = 4;  // 8 of 16 registers
#endif
constexpr std::int64_t line_bytes = 64;
template <typename Real>
constexpr std::int64_t block_tile_columns = 2 * Vector<Real>::lanes;

template <typename Real>
using BlockTileRow = typename Vector<Real>::type[2];
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
  static constexpr std::int64_t most_lines = 16;

  void begin() {
    if (rows_ == end_) {
      lines_each_time_ = 0;
      return;
    }
    rest_ = rows_->rows;
    at(reinterpret_cast<std::uintptr_t>(rows_->data));
  }
  void at(std::uintptr_t row) {
    row_ = row;
    row_bytes_ = static_cast<std::uintptr_t>(rows_->row_bytes);
    line_ = row / line_bytes * line_bytes;
  }
  bool next_row() {
    if (--rest_ > 0) {
      at(row_ + static_cast<std::uintptr_t>(rows_->stride_bytes));
    } else {
      ++rows_;
      begin();
    }
    return rows_ != end_;
  }

  const RowsAhead *rows_, *end_;
  std::int64_t rest_ = 0, lines_each_time_ = 0;
  std::uintptr_t row_ = 0, row_bytes_ = 0, line_ = 0;  ///< addresses, which prefetch only
};

/// to[k][c] <- columns [first, first + columns) of an operand with `count` of them, zeros behind.
template <std::int64_t columns, typename Real>
inline void pack(const BlockOperand<Real>& x, std::int64_t depth, std::int64_t first,
                 std::int64_t count, Real* to) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t width = std::min(columns, count - first);
  if (x.along_depth) {
    const Real* const from = x.data + first * x.stride;
    std::int64_t k = 0;
    if constexpr (columns % lanes == 0)
      for (; width == columns && k + lanes <= depth; k += lanes)
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
      __builtin_memcpy(to, from, columns * sizeof(Real));
  else
    for (std::int64_t k = 0; k < depth; ++k, from += x.stride, to += columns)
      for (std::int64_t c = 0; c < columns; ++c) to[c] = c < width ? from[c] : Real(0);
}

}  // namespace
}  // namespace shampoo::kernels
