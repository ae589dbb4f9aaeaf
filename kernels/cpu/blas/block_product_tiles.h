// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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
/// Leaves less over of few rows: of 64, for one.
constexpr TileShape low_tile = vector_bytes == 64 ? TileShape{4, 4} : TileShape{4, 3};
constexpr std::int64_t few_rows = 64;
/// For products with no more columns than it has.
constexpr TileShape narrow_tile = vector_bytes == 64 ? TileShape{8, 2} : TileShape{6, 2};

/// Terms of a sum from prefetch to prefetch.
constexpr std::int64_t depth_part = 16;

/// to[i * stride] <- the first vectors of row i of a tile. Inlined into a long function, it would
/// not keep its sums in registers.
template <int tile_rows, int vectors, typename Real>
__attribute__((noinline)) void multiply_panel(const TileOperand<Real>& a,
                                              const ColumnPanel<Real>& b, Prefetch& prefetch,
                                              Real* to, std::int64_t stride) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  using V = typename Vector<Real>::type;
  V sums[tile_rows][vectors] = {};
  const std::int64_t place = a.place, columns = b.stride, depth = b.depth;
  const Real *rows[tile_rows], *terms = b.data;
  for (int i = 0; i < tile_rows; ++i) rows[i] = a.data + i * a.row;
  for (std::int64_t first = 0; first < depth; first += depth_part) {
    prefetch.next();
    const std::int64_t end = std::min(first + depth_part, depth);
    for (std::int64_t k = first; k < end; ++k, terms += columns) {
      V right[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) right[v] = load(terms + v * lanes);
#pragma GCC unroll 8
      for (int i = 0; i < tile_rows; ++i) {
        const Real x = rows[i][k * place];
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[i][v] += x * right[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < tile_rows; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) store<Real>(sums[i][v], to + i * stride + v * lanes);
}

/// The same for `vectors` in [1, tile.vectors].
template <TileShape tile, typename Real>
inline void multiply_panel(std::int64_t vectors, const TileOperand<Real>& a,
                           const ColumnPanel<Real>& b, Prefetch& prefetch, Real* to,
                           std::int64_t stride) {
  switch (vectors) {
    case 1:
      return multiply_panel<tile.rows, 1>(a, b, prefetch, to, stride);
    case 2:
      return multiply_panel<tile.rows, 2>(a, b, prefetch, to, stride);
    case 3:
      return multiply_panel<tile.rows, std::min(3, tile.vectors)>(a, b, prefetch, to, stride);
    default:
      return multiply_panel<tile.rows, tile.vectors>(a, b, prefetch, to, stride);
  }
}

/// A in tiles of rows: in place where that is as good and they fill a tile, or else packed.
template <int tile_rows, typename Real>
class TileRows {
 public:
  TileRows(const BlockShape& shape, const BlockOperand<Real>& a, Real* packed)
      : a_(a.along_depth ? TileOperand<Real>{a.data, a.stride, 1}
                         : TileOperand<Real>{a.data, 1, a.stride}),
        in_place_(a.along_depth || stays_in_cache(a, shape.depth) ? shape.rows / tile_rows : 0),
        count_((shape.rows + tile_rows - 1) / tile_rows),
        tile_(tile_rows * shape.depth),
        packed_(packed) {
    // A part of the depth at a time: rows of A a power of two apart share few sets of a cache.
    for (std::int64_t first = 0; first < shape.depth; first += depth_part)
      for (std::int64_t t = in_place_; t < count_; ++t)
        pack_rows<tile_rows>(a_, first, std::min(first + depth_part, shape.depth), t * tile_rows,
                             shape.rows, packed + (t - in_place_) * tile_);
  }

  std::int64_t count() const { return count_; }

  TileOperand<Real> operator[](std::int64_t tile) const {
    if (tile < in_place_) return {a_.data + tile * tile_rows * a_.row, a_.row, a_.place};
    return {packed_ + (tile - in_place_) * tile_, 1, tile_rows};
  }

 private:
  TileOperand<Real> a_;
  std::int64_t in_place_, count_, tile_;
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

/// C <- combine(C, A B) by an Output:
///   row(i): where row i of C begins
///   columns(i): how many elements of it are wanted, in no row fewer than in the one before
///   combine(old, sums): what they become, vectors or numbers
///   replaces: whether that is the sums alone; rows of C lie `stride` apart then
template <TileShape tile, typename Real, typename Output>
inline void multiply_tiles(const Output& output, const BlockShape& shape,
                           const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                           const MemoryAhead& ahead, Real* scratch) {
  constexpr std::int64_t lanes = Vector<Real>::lanes, widest = tile.vectors * lanes;
  const TileRows<tile.rows, Real> rows(shape, a, scratch + shape.depth * widest);
  const auto vectors_of = [&](std::int64_t t, std::int64_t column) {
    const std::int64_t last = std::min((t + 1) * tile.rows, shape.rows) - 1;
    return (output.columns(last) - column + lanes - 1) / lanes;
  };
  // Where it can, a tile goes straight into C.
  const auto compute = [&](std::int64_t t, std::int64_t column, std::int64_t vectors,
                           const ColumnPanel<Real>& panel, Prefetch& prefetch) {
    const std::int64_t row = t * tile.rows, end = std::min(row + tile.rows, shape.rows);
    const std::int64_t width = vectors * lanes;
    if constexpr (Output::replaces)
      if (row + tile.rows == end && column + width <= shape.columns)
        return multiply_panel<tile>(vectors, rows[t], panel, prefetch, output.row(row) + column,
                                    output.stride);
    alignas(vector_bytes) Real sums[tile.rows * widest];
    multiply_panel<tile>(vectors, rows[t], panel, prefetch, sums, widest);
    for (std::int64_t i = row; i < end; ++i)
      put_row(output, sums + (i - row) * widest, std::min(output.columns(i) - column, width),
              shape.columns - column, output.row(i) + column);
  };

  std::int64_t tiles = 0;
  for_each_column_panel<Real>(shape.columns, tile.vectors, [&](std::int64_t column, std::int64_t) {
    for (std::int64_t t = 0; t < rows.count(); ++t) tiles += vectors_of(t, column) > 0;
  });
  Prefetch prefetch(ahead, tiles * ((shape.depth + depth_part - 1) / depth_part));
  for_each_column_panel<Real>(
      shape.columns, tile.vectors, [&](std::int64_t column, std::int64_t across) {
        const ColumnPanel<Real> panel = columns_of(shape, b, column, across, scratch);
        for (std::int64_t t = 0; t < rows.count(); ++t) {
          const std::int64_t vectors = std::min(vectors_of(t, column), across);
          if (vectors > 0) compute(t, column, vectors, panel, prefetch);
        }
      });
}

template <typename Real, typename Output>
inline void multiply_into(const Output& output, const BlockShape& shape,
                          const BlockOperand<Real>& a, const BlockOperand<Real>& b,
                          const MemoryAhead& ahead, Real* scratch) {
  if (shape.columns <= narrow_tile.vectors * Vector<Real>::lanes)
    multiply_tiles<narrow_tile>(output, shape, a, b, ahead, scratch);
  else if (shape.rows <= few_rows)
    multiply_tiles<low_tile>(output, shape, a, b, ahead, scratch);
  else
    multiply_tiles<large_tile>(output, shape, a, b, ahead, scratch);
}

template <bool subtracts, typename Real>
struct MatrixOutput {
  static constexpr bool replaces = !subtracts;

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
  static constexpr bool replaces = false;

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
void accumulate_block(const BlockShape& shape, const BlockOperand<Real>& a,
                      const BlockOperand<Real>& b, const MemoryAhead& ahead, Real keep, Real add,
                      Real* factor, bool packed, Real* scratch) {
  multiply_into(TriangleOutput<Real>{factor, packed, shape.rows, keep, add}, shape, a, b, ahead,
                scratch);
}

}  // namespace
}  // namespace shampoo::kernels
