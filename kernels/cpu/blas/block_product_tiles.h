// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/blas/block_panels.h"

/// Products of matrices that fit into the second-level cache. B goes through the first-level cache
/// in packed panels; what is read next is prefetched while a tile is computed. Every element is
/// sum_k a_ik b_kj with k ascending, fused: results depend neither on tiles nor on how operands are
/// stored. Internal linkage: each level of the instruction set keeps its own compiled copy.
namespace shampoo::kernels {
namespace {

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
