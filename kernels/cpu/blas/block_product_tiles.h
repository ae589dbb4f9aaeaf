// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cpu/blas/block_panels.h"
#include "kernels/rules/factor_layout.h"

/// Products of matrices that fit into the second-level cache. B is packed in panels of columns, or
/// read in place where it is small; what later products use is prefetched meanwhile. Every element
/// is sum_k a_ik b_kj with k ascending, fused: results depend neither on tiles nor on how operands
/// are stored. Internal linkage: each level of the instruction set keeps its own compiled copy.
namespace shampoo::kernels {
namespace {

/// Sums that stay in registers, beside a row of B and an element of A. Four vectors to a row take
/// fewer loads than two for as many sums.
struct TileShape {
  int rows, vectors;
};
constexpr TileShape large_tile = vector_bytes == 64 ? TileShape{6, 4} : TileShape{4, 3};
/// For few rows, where its tiles have fewer rows too many: of 64 and 128, for two.
constexpr TileShape low_tile = vector_bytes == 64 ? TileShape{4, 4} : TileShape{4, 3};
constexpr std::int64_t few_rows = 128;
/// For products with no more columns than it has.
constexpr TileShape narrow_tile = vector_bytes == 64 ? TileShape{8, 2} : TileShape{6, 2};

/// Terms of a sum from prefetch to prefetch.
constexpr std::int64_t depth_part = 16;

/// to[i * stride] <- the first vectors of row i of a tile. Inlined into a long function, it would
/// not keep its sums in registers.
template <int tile_rows, int vectors, typename Real, typename Operand>
__attribute__((noinline)) void multiply_panel(const Operand& a, const ColumnPanel<Real>& b,
                                              Prefetch& prefetch, Real* to, std::int64_t stride) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  using V = typename Vector<Real>::type;
  V sums[tile_rows][vectors] = {};
  const Operand rows = a;
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
        const Real x = rows.at(i, k);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[i][v] += x * right[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store<Real>(sums[i][v], to + i * stride + v * lanes);
}

/// body.operator()<vectors>() for `vectors` in [1, most]
template <int most, typename Body>
inline void with_vectors(std::int64_t vectors, const Body& body) {
  if constexpr (most > 1)
    if (vectors < most) return with_vectors<most - 1>(vectors, body);
  body.template operator()<most>();
}

/// A in tiles of rows: in place where that is as good and they fill a tile, or else packed. Tiles
/// from the one of row `first_row` on are there.
template <int tile_rows, typename Real>
class TileRows {
 public:
  TileRows(const BlockShape& shape, const BlockOperand<Real>& a, std::int64_t first_row,
           Real* packed)
      : a_(a.along_depth ? TileOperand<Real>{a.data, a.stride, 1}
                         : TileOperand<Real>{a.data, 1, a.stride}),
        in_place_(a.along_depth || stays_in_cache(a, shape.depth) ? shape.rows / tile_rows : 0),
        tile_(tile_rows * shape.depth),
        packed_(packed) {
    const std::int64_t begin = std::max(in_place_, first_row / tile_rows) * tile_rows;
    // A part of the depth at a time: rows of A a power of two apart share few sets of a cache.
    for (std::int64_t first = 0; first < shape.depth; first += depth_part)
      for (std::int64_t row = begin; row < shape.rows; row += tile_rows)
        pack_rows<tile_rows>(a_, first, std::min(first + depth_part, shape.depth), row, shape.rows,
                             packed + (row / tile_rows - in_place_) * tile_);
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

/// body(first column, vectors) for panels of about the same width
template <typename Real, typename Body>
inline void for_each_column_panel(std::int64_t columns, std::int64_t most_vectors,
                                  const Body& body) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  std::int64_t column = 0, rest = (columns + lanes - 1) / lanes;
  for (std::int64_t panels = (rest + most_vectors - 1) / most_vectors; panels > 0; --panels) {
    const std::int64_t vectors = (rest + panels - 1) / panels;
    body(column, vectors);
    column += vectors * lanes;
    rest -= vectors;
  }
}

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

/// Sums of any tile.
constexpr int most_sums = vector_bytes == 64 ? 28 : 12;

/// Rows of a tile of so many vectors at the diagonal. They divide the columns of a vector.
template <typename Real>
constexpr int diagonal_rows(std::int64_t vectors) {
  return static_cast<int>(std::bit_floor(
      static_cast<unsigned>(std::min<std::int64_t>(Vector<Real>::lanes, most_sums / vectors))));
}

/// Tiles of more vectors would be lower there than elsewhere.
template <TileShape tile, typename Real>
constexpr int diagonal_vectors() {
  int vectors = tile.vectors;
  while (vectors > 0 && diagonal_rows<Real>(vectors) < tile.rows) --vectors;
  return vectors;
}

/// body(row, end, vectors, at_diagonal) for tiles that make rows [row, end) of `across` vectors of
/// columns; of a lower triangle the vectors that its rows reach.
template <TileShape tile, bool is_triangle, typename Real, typename Body>
inline void for_each_tile(std::int64_t rows, std::int64_t column, std::int64_t across,
                          const Body& body) {
  constexpr std::int64_t lanes = Vector<Real>::lanes, most = diagonal_vectors<tile, Real>();
  std::int64_t row = is_triangle ? column : 0;
  for (std::int64_t vectors = 1; is_triangle && vectors <= std::min(across, most); ++vectors) {
    const std::int64_t end = std::min(column + vectors * lanes, rows);
    for (const int height = diagonal_rows<Real>(vectors); row < end; row += height)
      body(row, std::min(row + height, rows), vectors, true);
  }
  for (std::int64_t next = 0; row < rows; row = next) {
    next = (row / tile.rows + 1) * tile.rows;
    body(row, std::min(next, rows), across, false);
  }
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
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  const auto for_each_tile_of = [&](std::int64_t column, std::int64_t across, const auto& body) {
    for_each_tile<tile, Output::is_triangle, Real>(shape.rows, column, across, body);
  };
  std::int64_t tiles = 0, first_row = shape.rows;
  for_each_column_panel<Real>(
      shape.columns, tile.vectors, [&](std::int64_t column, std::int64_t across) {
        for_each_tile_of(column, across, [&](std::int64_t row, auto, auto, bool at_diagonal) {
          ++tiles;
          if (!at_diagonal) first_row = std::min(first_row, row);
        });
      });
  Prefetch prefetch(ahead, tiles * ((shape.depth + depth_part - 1) / depth_part));
  const TileRows<tile.rows, Real> rows(shape, a, first_row,
                                       scratch + shape.depth * tile.vectors * lanes);

  for_each_column_panel<Real>(
      shape.columns, tile.vectors, [&](std::int64_t column, std::int64_t across) {
        const ColumnPanel<Real> panel = columns_of(shape, b, column, across, scratch);
        const auto multiply = [&](std::int64_t row, std::int64_t vectors, bool at_diagonal,
                                  Real* to, std::int64_t stride) {
          if (!at_diagonal) {
            with_vectors<tile.vectors>(vectors, [&]<int count>() {
              multiply_panel<tile.rows, count>(rows[row / tile.rows], panel, prefetch, to, stride);
            });
          } else if constexpr (constexpr int most = diagonal_vectors<tile, Real>();
                               Output::is_triangle && most > 0) {
            // The panel has columns of A^T, which are rows of A.
            const AdjacentRows<Real> own{panel.data + (row - column), panel.stride};
            with_vectors<most>(vectors, [&]<int count>() {
              multiply_panel<diagonal_rows<Real>(count), count>(own, panel, prefetch, to, stride);
            });
          }
        };
        for_each_tile_of(
            column, across,
            [&](std::int64_t row, std::int64_t end, std::int64_t vectors, bool at_diagonal) {
              const std::int64_t width = vectors * lanes;
              // Where it can, a tile goes straight into C.
              if constexpr (Output::replaces)
                if (end - row == tile.rows && column + width <= shape.columns)
                  return multiply(row, vectors, at_diagonal, output.row(row) + column,
                                  output.stride);
              alignas(vector_bytes) Real sums[most_sums * lanes];
              multiply(row, vectors, at_diagonal, sums, width);
              const Real* some = sums + (at_diagonal ? 0 : row % tile.rows) * width;
              for (; row < end; ++row, some += width)
                put_row(output, some, std::min(output.columns(row) - column, width),
                        shape.columns - column, output.row(row) + column);
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
    T added = add * sums;
    // Compilers would choose differently which of two products to fuse with the sum.
    __asm__("" : "+v"(added));
    return keep * old + added;
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
