// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/blas/block_products.h"
#include "kernels/cpu/simd/vector_transpose.h"

/// Packed panels of operands, and memory that is used later. Internal linkage:
/// see block_product_tiles.h.
namespace shampoo::kernels {
namespace {

constexpr std::int64_t line_bytes = 64;

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

/// Rows of A: i starts at data[i * row], its elements lie `place` apart.
template <typename Real>
struct TileOperand {
  const Real* data;
  std::int64_t row, place;
  Real at(int i, std::int64_t k) const { return data[i * row + k * place]; }
};

/// The same with `row` = 1 known to the compiler: many rows then share one address.
template <typename Real>
struct AdjacentRows {
  const Real* data;
  std::int64_t place;
  Real at(int i, std::int64_t k) const { return data[i + k * place]; }
};

/// Columns of B from `first` on: `depth` terms of the sums, `stride` elements apart.
template <typename Real>
struct ColumnPanel {
  const Real* data;
  std::int64_t first, stride, depth;
};

/// Whether an operand that lies across the depth stays in the first-level cache with all that is
/// between its rows.
template <typename Real>
inline bool stays_in_cache(const BlockOperand<Real>& x, std::int64_t depth) {
  constexpr std::int64_t most_bytes = 16 << 10;
  return depth * x.stride * static_cast<std::int64_t>(sizeof(Real)) <= most_bytes;
}

/// So many vectors of columns of B from `first` on, which may end before them: in place where that
/// is as good, or else packed into `to`. What is behind the last column does not matter.
template <typename Real>
__attribute__((noinline)) ColumnPanel<Real> columns_of(const BlockShape& shape,
                                                       const BlockOperand<Real>& b,
                                                       std::int64_t first, std::int64_t vectors,
                                                       Real* to) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t columns = vectors * lanes, width = std::min(columns, shape.columns - first);
  const ColumnPanel<Real> packed{to, first, columns, shape.depth};
  if (b.along_depth) {
    transpose(b.data + first * b.stride, width, shape.depth, b.stride, to, columns);
    return packed;
  }
  const Real* from = b.data + first;
  if (width == columns && stays_in_cache(b, shape.depth))
    return {from, first, b.stride, shape.depth};
  for (std::int64_t k = 0; k < shape.depth; ++k, from += b.stride, to += columns) {
    for (std::int64_t c = 0; c + lanes < width; c += lanes) store<Real>(load(from + c), to + c);
    // The last vector overlaps the one before it.
    if (width >= lanes)
      store<Real>(load(from + width - lanes), to + width - lanes);
    else
      for (std::int64_t c = 0; c < width; ++c) to[c] = from[c];
  }
  return packed;
}

/// to[k][r] <- term k, in [begin, end), of the sum of row first + r of `count`, zeros behind.
template <int tile_rows, typename Real>
inline void pack_rows(const TileOperand<Real>& a, std::int64_t begin, std::int64_t end,
                      std::int64_t first, std::int64_t count, Real* to) {
  const Real* from = a.data + first * a.row + begin * a.place;
  to += begin * tile_rows;
  const bool whole = a.row == 1 && first + tile_rows <= count;
  for (std::int64_t k = begin; k < end; ++k, from += a.place, to += tile_rows)
    if (whole)
      __builtin_memcpy(to, from, tile_rows * sizeof(Real));
    else
      for (std::int64_t r = 0; r < tile_rows; ++r)
        to[r] = first + r < count ? from[r * a.row] : Real(0);
}

}  // namespace
}  // namespace shampoo::kernels
