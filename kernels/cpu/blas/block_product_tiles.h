// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "kernels/cpu/blas/block_products.h"

/// Products of matrices that fit into the second-level cache. B goes through the first-level cache
/// in packed panels; what is read next is prefetched while a tile is computed. Every element is
/// sum_k a_ik b_kj with k ascending, fused: results depend neither on tiles nor on how operands are
/// stored. Internal linkage: each level of the instruction set keeps its own compiled copy.
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

/// sums <- rows of A times a packed panel of B. Row i of A starts at a[i * row], its elements lie
/// `place` apart.
template <typename Real>
inline void multiply_panel(const Real* a, std::int64_t row, std::int64_t place, const Real* panel,
                           std::int64_t depth, const Lines& lines, BlockTile<Real>& tile) {
  using V = typename BlockVector<Real>::type;
  constexpr std::int64_t part = 16;
  const std::int64_t share = (lines.count() * part + depth - 1) / depth;
  V sums[block_tile_rows][2] = {};
  const Real* rows[block_tile_rows];
  for (int i = 0; i < block_tile_rows; ++i) rows[i] = a + i * row;
  for (std::int64_t first = 0; first < depth; first += part) {
    lines.fetch(first / part * share, share);
    const std::int64_t end = std::min(first + part, depth);
    for (std::int64_t k = first; k < end; ++k, panel += BlockVector<Real>::columns) {
      V b0, b1;
      __builtin_memcpy(&b0, panel, block_vector_bytes);
      __builtin_memcpy(&b1, panel + BlockVector<Real>::lanes, block_vector_bytes);
#pragma GCC unroll 8
      for (int i = 0; i < block_tile_rows; ++i) {
        const Real x = rows[i][k * place];
        sums[i][0] += x * b0;
        sums[i][1] += x * b1;
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < block_tile_rows; ++i) {
    tile[i][0] = sums[i][0];
    tile[i][1] = sums[i][1];
  }
}

/// A, in place where its rows fill tiles, or packed tile after tile.
template <typename Real>
class TileRows {
 public:
  TileRows(const BlockShape& shape, const BlockOperand<Real>& a, Real* packed)
      : depth_(shape.depth),
        tiles_((shape.rows + block_tile_rows - 1) / block_tile_rows),
        in_place_(a.along_depth && shape.rows % block_tile_rows == 0),
        data_(in_place_ ? a.data : packed),
        row_(in_place_ ? a.stride : 1) {
    for (std::int64_t t = 0; !in_place_ && t < tiles_; ++t)
      pack(a, depth_, t * block_tile_rows, shape.rows, block_tile_rows,
           packed + t * block_tile_rows * depth_);
  }

  std::int64_t tiles() const { return tiles_; }

  void multiply(std::int64_t tile, const Real* panel, const Lines& lines,
                BlockTile<Real>& sums) const {
    if (in_place_)
      multiply_panel(at(tile), row_, 1, panel, depth_, lines, sums);
    else
      multiply_panel(at(tile), 1, block_tile_rows, panel, depth_, lines, sums);
  }

  /// The rows of a tile that are read for the first time.
  void take(std::int64_t tile, Lines& lines) const {
    constexpr std::int64_t bytes = sizeof(Real);
    if (!in_place_ || tile >= tiles_) return;
    Region rows(at(tile), block_tile_rows, depth_ * bytes, row_ * bytes);
    rows.take(rows.lines(), lines);
  }

 private:
  const Real* at(std::int64_t tile) const {
    return data_ + tile * block_tile_rows * (in_place_ ? row_ : depth_);
  }

  std::int64_t depth_, tiles_;
  bool in_place_;
  const Real* data_;
  std::int64_t row_;
};

/// The panel of B that starts with a column.
template <typename Real>
inline Region panel_region(const BlockShape& shape, const BlockOperand<Real>& b,
                           std::int64_t column) {
  constexpr std::int64_t bytes = sizeof(Real);
  const std::int64_t width =
      std::clamp<std::int64_t>(shape.columns - column, 0, BlockVector<Real>::columns);
  if (b.along_depth)
    return Region(b.data + column * b.stride, width, shape.depth * bytes, b.stride * bytes);
  return Region(b.data + column, width > 0 ? shape.depth : 0, width * bytes, b.stride * bytes);
}

/// store(sums, row, column) for the tiles of A B with wants(row, column). `touch(row, column,
/// lines)` names the memory that a later store will use.
template <typename Real, typename Wants, typename Touch, typename Store>
inline void multiply_tiles(const BlockShape& shape, const BlockOperand<Real>& a,
                           const BlockOperand<Real>& b, const BlocksAhead& ahead, Real* scratch,
                           const Wants& wants, const Touch& touch, const Store& store) {
  constexpr std::int64_t columns = BlockVector<Real>::columns;
  Real* const panel = scratch;
  const TileRows<Real> rows(shape, a, scratch + shape.depth * columns);
  const std::int64_t across = (shape.columns + columns - 1) / columns;
  Region later[2] = {{ahead[0].data, 1, ahead[0].bytes, 0}, {ahead[1].data, 1, ahead[1].bytes, 0}};
  const std::int64_t later_lines =
      (later[0].lines() + later[1].lines()) / (rows.tiles() * across) + 1;
  const bool fetches = shape.depth >= shortest_fetched;
  Lines lines;
  for (std::int64_t j = 0; j < across; ++j) {
    pack(b, shape.depth, j * columns, shape.columns, columns, panel);
    Region soon = panel_region(shape, b, (j + 1) * columns);
    const std::int64_t soon_lines = soon.lines() / rows.tiles() + 1;
    for (std::int64_t i = 0; i < rows.tiles(); ++i) {
      if (!wants(i * block_tile_rows, j * columns)) continue;
      lines.clear();
      if (fetches) {
        if (i + 1 < rows.tiles()) touch((i + 1) * block_tile_rows, j * columns, lines);
        if (j == 0) rows.take(i + 1, lines);
        soon.take(soon_lines, lines);
        later[later[0].lines() == 0].take(later_lines, lines);
      }
      BlockTile<Real> sums;
      rows.multiply(i, panel, lines, sums);
      store(sums, i * block_tile_rows, j * columns);
    }
  }
}

/// The lines of some elements.
template <typename Real>
inline void take_elements(const Real* from, std::int64_t count, Lines& lines) {
  const auto* const bytes = reinterpret_cast<const char*>(from);
  const auto into_line = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) %
                                                   static_cast<std::uintptr_t>(line_bytes));
  const std::int64_t end = count * static_cast<std::int64_t>(sizeof(Real));
  for (std::int64_t i = -into_line; i < end; i += line_bytes) lines.add(bytes + i);
}

template <typename Real>
void multiply_block(const BlockShape& shape, const BlockOperand<Real>& a,
                    const BlockOperand<Real>& b, const BlocksAhead& ahead, Real* c,
                    std::int64_t stride, Real* scratch) {
  constexpr std::int64_t columns = BlockVector<Real>::columns;
  multiply_tiles(
      shape, a, b, ahead, scratch, [](std::int64_t, std::int64_t) { return true; },
      [&](std::int64_t row, std::int64_t column, Lines& lines) {
        const std::int64_t width = std::min(columns, shape.columns - column);
        for (std::int64_t i = row; i < std::min(row + block_tile_rows, shape.rows); ++i)
          take_elements(c + i * stride + column, width, lines);
      },
      [&](const BlockTile<Real>& tile, std::int64_t row, std::int64_t column) {
        const std::int64_t rows = std::min<std::int64_t>(block_tile_rows, shape.rows - row);
        const std::int64_t width = std::min(columns, shape.columns - column);
        Real* to = c + row * stride + column;
        if (width == columns)
          for (std::int64_t i = 0; i < rows; ++i, to += stride)
            __builtin_memcpy(to, &tile[i], sizeof(tile[i]));
        else
          for (std::int64_t i = 0; i < rows; ++i, to += stride)
            __builtin_memcpy(to, &tile[i], static_cast<std::size_t>(width) * sizeof(Real));
      });
}

template <typename Real>
void accumulate_block(const BlockShape& shape, const BlockOperand<Real>& a,
                      const BlockOperand<Real>& b, Real keep, Real add, Real* triangle,
                      Real* scratch) {
  constexpr std::int64_t columns = BlockVector<Real>::columns;
  const auto row_of = [&](std::int64_t i) { return triangle + i * (i + 1) / 2; };
  multiply_tiles(
      shape, a, b, {}, scratch,
      [](std::int64_t row, std::int64_t column) { return column < row + block_tile_rows; },
      [&](std::int64_t row, std::int64_t column, Lines& lines) {
        for (std::int64_t i = row; i < std::min(row + block_tile_rows, shape.rows); ++i)
          if (column <= i)
            take_elements(row_of(i) + column, std::min(columns, i + 1 - column), lines);
      },
      [&](const BlockTile<Real>& tile, std::int64_t row, std::int64_t column) {
        const std::int64_t rows = std::min<std::int64_t>(block_tile_rows, shape.rows - row);
        for (std::int64_t i = 0; i < rows; ++i) {
          Real sums[columns];
          __builtin_memcpy(sums, &tile[i], sizeof(sums));
          Real* const to = row_of(row + i) + column;
          const std::int64_t width = std::min(columns, row + i + 1 - column);
          if (width == columns)
            for (std::int64_t c = 0; c < columns; ++c) to[c] = keep * to[c] + add * sums[c];
          else
            for (std::int64_t c = 0; c < width; ++c) to[c] = keep * to[c] + add * sums[c];
        }
      });
}

}  // namespace
}  // namespace shampoo::kernels
