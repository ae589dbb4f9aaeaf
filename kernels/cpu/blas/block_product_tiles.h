// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/blas/block_panels.h"
#include "kernels/cpu/blas/register_tiles.h"
#include "kernels/rules/factor_layout.h"

/// Products of matrices that fit into the second-level cache. B is packed in panels of columns, or
/// read in place where it is small; what later products use is prefetched meanwhile. Every element
/// is sum_k a_ik b_kj with k ascending, fused: results depend neither on tiles nor on how operands
/// are stored. Internal linkage: each level of the instruction set keeps its own compiled copy.
namespace shampoo::kernels {
namespace {

/// Terms of a sum from prefetch to prefetch.
constexpr std::int64_t depth_part = 16;

/// to[i * stride] <- the first vectors of row i of a tile. Inlined into a long function, it would
/// not keep its sums in registers.
template <int tile_rows, int vectors, typename Real, typename Operand>
__attribute__((noinline)) void multiply_panel(const Operand& rows, const ColumnPanel<Real>& b,
                                              Prefetch& prefetch, Real* to, std::int64_t stride) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  using V = typename Vector<Real>::type;
  V sums[tile_rows][vectors] = {};
  const Operand a = rows;  // prefetch.next() cannot change the copy
  const std::int64_t columns = b.stride, depth = b.depth;
  const Real* terms = b.data;
  for (std::int64_t first = 0; first < depth; first += depth_part) {
    prefetch.next();
    const std::int64_t end = std::min(first + depth_part, depth);
    for (std::int64_t k = first; k < end; ++k, terms += columns) {
      V right[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) right[v] = load(terms + v * lanes);
#pragma GCC unroll 16
      for (int i = 0; i < tile_rows; ++i) {
        const Real x = a.at(i, k);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[i][v] = fused(x, right[v], sums[i][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store<Real>(sums[i][v], to + i * stride + v * lanes);
}

/// A in tiles of rows: in place where that is as good and they fill a tile, or else packed. Tiles
/// from `first` on are there.
template <int tile_rows, typename Real>
class TileRows {
 public:
  TileRows(const BlockShape& shape, const BlockOperand<Real>& a, std::int64_t first, Real* packed)
      : a_(a.along_depth ? TileOperand<Real>{a.data, a.stride, 1}
                         : TileOperand<Real>{a.data, 1, a.stride}),
        in_place_(a.along_depth || stays_in_cache(a, shape.depth) ? shape.rows / tile_rows : 0),
        tile_(tile_rows * shape.depth),
        packed_(packed) {
    // A part of the depth at a time: rows of A a power of two apart share few sets of a cache.
    for (std::int64_t k = 0; k < shape.depth; k += depth_part)
      for (std::int64_t t = std::max(in_place_, first); t * tile_rows < shape.rows; ++t)
        pack_rows<tile_rows>(a_, k, std::min(k + depth_part, shape.depth), t * tile_rows,
                             shape.rows, packed + (t - in_place_) * tile_);
  }

  TileOperand<Real> operator[](std::int64_t tile) const {
    if (tile < in_place_) return {a_.data + tile * tile_rows * a_.row, a_.row, a_.place};
    return {packed_ + (tile - in_place_) * tile_, 1, tile_rows};
  }

 private:
  TileOperand<Real> a_;
  std::int64_t in_place_, tile_;
  const Real* packed_;
};

/// Elements [0, width) of a part of a row of C. Up to `room`, those behind them may be written as
/// they were.
template <typename Real, typename Output>
inline void put_row(const Output& output, const Real* sums, std::int64_t width, std::int64_t room,
                    Real* to) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  std::int64_t c = 0;
  for (; c + lanes <= width; c += lanes)
    store<Real>(output.combine(load(to + c), load(sums + c)), to + c);
  if (c < width && c + lanes <= room) {
    const auto old = load(to + c);
    store<Real>(first_lanes<Real>(width - c, output.combine(old, load(sums + c)), old), to + c);
    return;
  }
  for (; c < width; ++c) to[c] = output.combine(to[c], sums[c]);
}

/// to[i * stride] <- row i of the sums of a tile, of the whole one that the range is in.
template <TileShape tile, bool is_triangle, typename Real>
inline void multiply_tile(const TileRange& range, const TileRows<tile.rows, Real>& rows,
                          const ColumnPanel<Real>& panel, Prefetch& prefetch, Real* to,
                          std::int64_t stride) {
  if (!range.at_diagonal)
    return with_vectors<tile.vectors>(range.vectors, [&]<int vectors>() {
      multiply_panel<tile.rows, vectors>(rows[range.row / tile.rows], panel, prefetch, to, stride);
    });
  if constexpr (constexpr int most = diagonal_vectors<tile, Real>(); is_triangle && most > 0) {
    // Columns of A^T are rows of A.
    const AdjacentRows<Real> rows_of_panel{panel.data + (range.row - panel.first), panel.stride};
    with_vectors<most>(range.vectors, [&]<int vectors>() {
      multiply_panel<diagonal_rows<Real>(vectors), vectors>(rows_of_panel, panel, prefetch, to,
                                                            stride);
    });
  }
}

/// The tile's part of multiply_tiles().
template <TileShape tile, typename Real, typename Output>
inline void put_tile(const Output& output, std::int64_t columns, const TileRange& range,
                     const TileRows<tile.rows, Real>& rows, const ColumnPanel<Real>& panel,
                     Prefetch& prefetch) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const std::int64_t width = range.vectors * lanes, first = panel.first;
  // Where it can, a tile goes straight into C.
  if constexpr (Output::replaces)
    if (range.end - range.row == tile.rows && first + width <= columns)
      return multiply_tile<tile, false>(range, rows, panel, prefetch, output.row(range.row) + first,
                                        output.stride);
  static_assert(tile.rows * tile.vectors <= most_sums);
  alignas(vector_bytes) Real sums[most_sums * lanes];
  multiply_tile<tile, Output::is_triangle>(range, rows, panel, prefetch, sums, width);
  const Real* row_sums = sums + (range.at_diagonal ? 0 : range.row % tile.rows) * width;
  for (std::int64_t row = range.row; row < range.end; ++row, row_sums += width)
    put_row(output, row_sums, std::min(output.columns(row) - first, width), columns - first,
            output.row(row) + first);
}

/// C <- combine(C, A B) by an Output:
///   row(i): where row i of C begins
///   columns(i): how many elements of it are wanted
///   combine(old, sums): what they become, vectors or numbers
///   replaces: whether that is the sums alone; rows of C lie `stride` apart then
///   is_triangle: whether B is A^T, and the lower triangle of C is wanted
template <TileShape tile, typename Real, typename Output>
inline void multiply_tiles(const Output& output, const BlockShape& shape,
                           const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                           const MemoryAhead& ahead, Real* scratch) {
  const auto for_each_tile_of = [&](std::int64_t column, int across, const auto& body) {
    for_each_tile<tile, Output::is_triangle, Real>(shape.rows, column, across, body);
  };
  std::int64_t tiles = 0, first_tile = shape.rows;
  for_each_column_panel<Real>(shape.columns, tile.vectors, [&](std::int64_t column, int across) {
    for_each_tile_of(column, across, [&](const TileRange& range) {
      ++tiles;
      if (!range.at_diagonal) first_tile = std::min(first_tile, range.row / tile.rows);
    });
  });
  Prefetch prefetch(ahead, tiles * ((shape.depth + depth_part - 1) / depth_part));
  const std::int64_t panel_elements = shape.depth * tile.vectors * Vector<Real>::lanes;
  const TileRows<tile.rows, Real> rows(shape, a, first_tile, scratch + panel_elements);

  for_each_column_panel<Real>(shape.columns, tile.vectors, [&](std::int64_t column, int across) {
    const ColumnPanel<Real> panel = columns_of(shape, b, column, across, scratch);
    for_each_tile_of(column, across, [&](const TileRange& range) {
      put_tile<tile>(output, shape.columns, range, rows, panel, prefetch);
    });
  });
}

template <typename Real, typename Output>
inline void multiply_into(const Output& output, const BlockShape& shape,
                          const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                          const MemoryAhead& ahead, Real* scratch) {
  const auto rows_of = [&](const TileShape& tile) {
    return (shape.rows + tile.rows - 1) / tile.rows * tile.rows;
  };
  if (shape.columns <= narrow_tile.vectors * Vector<Real>::lanes)
    multiply_tiles<narrow_tile>(output, shape, a, b, ahead, scratch);
  else if (shape.rows <= few_rows && rows_of(low_tile) < rows_of(large_tile))
    multiply_tiles<low_tile>(output, shape, a, b, ahead, scratch);
  else
    multiply_tiles<large_tile>(output, shape, a, b, ahead, scratch);
}

template <bool subtracts, typename Real>
struct MatrixOutput {
  static constexpr bool replaces = !subtracts, is_triangle = false;

  Real* c;
  std::int64_t stride, width;

  Real* row(std::int64_t i) const { return c + i * stride; }
  std::int64_t columns(std::int64_t) const { return width; }
  template <typename T>
  T combine(T old, T sums) const {
    return subtracts ? old - sums : sums;
  }
};

template <typename Real>
void multiply_block(const BlockShape& shape, const BlockOperand<Real>& a,
                    const BlockOperand<Real>& b, const MemoryAhead& ahead, Real* c,
                    std::int64_t stride, Real* scratch) {
  multiply_into(MatrixOutput<false, Real>{c, stride, shape.columns}, shape, a, b, ahead, scratch);
}

template <typename Real>
void subtract_block(const BlockShape& shape, const BlockOperand<Real>& a,
                    const BlockOperand<Real>& b, Real* c, std::int64_t stride, Real* scratch) {
  multiply_into(MatrixOutput<true, Real>{c, stride, shape.columns}, shape, a, b, {}, scratch);
}

template <typename Real>
struct TriangleOutput {
  static constexpr bool replaces = false, is_triangle = true;

  Real* factor;
  bool packed;
  std::int64_t side;
  Real keep, add;

  Real* row(std::int64_t i) const { return factor + triangle_row(packed, side, i); }
  std::int64_t columns(std::int64_t i) const { return i + 1; }
  template <typename T>
  T combine(T old, T sums) const {
    return fused(keep, old, add * sums);
  }
};

template <typename Real>
void accumulate_block(std::int64_t side, std::int64_t depth, const BlockOperand<Real>& s,
                      const MemoryAhead& ahead, Real keep, Real add, Real* factor, bool packed,
                      Real* scratch) {
  multiply_into(TriangleOutput<Real>{factor, packed, side, keep, add}, {side, side, depth}, s, s,
                ahead, scratch);
}

}  // namespace
}  // namespace shampoo::kernels
