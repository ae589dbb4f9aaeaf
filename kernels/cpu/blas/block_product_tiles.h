// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/blas/block_panels.h"
#include "kernels/rules/factor_layout.h"

/// Products of matrices that fit into the second-level cache. B goes through the first-level cache
/// in packed panels; what later products use is prefetched meanwhile. Every element is
/// sum_k a_ik b_kj with k ascending, fused: results depend neither on tiles nor on how operands are
/// stored. Internal linkage: each level of the instruction set keeps its own compiled copy.
namespace shampoo::kernels {
namespace {

/// Terms of a sum from prefetch to prefetch.
constexpr std::int64_t depth_part = 16;

/// The first `vectors` vectors of the tile's rows <- rows of A times a packed panel of B. Row i of
/// A starts at a[i * row], its elements lie `place` apart. Inlined into a long function, it would
/// not keep its sums in registers.
template <int vectors, typename Real>
__attribute__((noinline)) void multiply_panel(const Real* a, std::int64_t row, std::int64_t place,
                                              const Real* panel, std::int64_t depth,
                                              Prefetch& prefetch, BlockTile<Real>& tile) {
  using V = typename Vector<Real>::type;
  V sums[block_tile_rows][vectors] = {};
  const Real* rows[block_tile_rows];
  for (int i = 0; i < block_tile_rows; ++i) rows[i] = a + i * row;
  for (std::int64_t first = 0; first < depth; first += depth_part) {
    prefetch.next();
    const std::int64_t end = std::min(first + depth_part, depth);
    for (std::int64_t k = first; k < end; ++k, panel += block_tile_columns<Real>) {
      V b[vectors];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) b[v] = load(panel + v * Vector<Real>::lanes);
#pragma GCC unroll 8
      for (int i = 0; i < block_tile_rows; ++i) {
        const Real x = rows[i][k * place];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; ++v) sums[i][v] += x * b[v];
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < block_tile_rows; ++i)
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) tile[i][v] = v < vectors ? sums[i][v] : V{};
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
      pack<block_tile_rows>(a, depth_, t * block_tile_rows, shape.rows,
                            packed + t * block_tile_rows * depth_);
  }

  std::int64_t tiles() const { return tiles_; }

  template <int vectors>
  void multiply(std::int64_t tile, const Real* panel, Prefetch& prefetch,
                BlockTile<Real>& sums) const {
    if (in_place_)
      multiply_panel<vectors>(at(tile), row_, 1, panel, depth_, prefetch, sums);
    else
      multiply_panel<vectors>(at(tile), 1, block_tile_rows, panel, depth_, prefetch, sums);
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

/// store(sums, row, column) for the tiles of A B of which vectors_of(row, column) of at most two
/// vectors of each row are needed, if any.
template <typename Real, typename VectorsOf, typename Store>
inline void multiply_tiles(const BlockShape& shape, const BlockOperand<Real>& a,
                           const BlockOperand<Real>& b, const MemoryAhead& ahead, Real* scratch,
                           const VectorsOf& vectors_of, const Store& store) {
  constexpr std::int64_t columns = block_tile_columns<Real>;
  Real* const panel = scratch;
  const TileRows<Real> rows(shape, a, scratch + shape.depth * columns);
  const std::int64_t across = (shape.columns + columns - 1) / columns;
  std::int64_t needed = 0;
  for (std::int64_t j = 0; j < across; ++j)
    for (std::int64_t i = 0; i < rows.tiles(); ++i)
      needed += vectors_of(i * block_tile_rows, j * columns) > 0;
  Prefetch prefetch(ahead, needed * ((shape.depth + depth_part - 1) / depth_part));
  for (std::int64_t j = 0; j < across; ++j) {
    pack<columns>(b, shape.depth, j * columns, shape.columns, panel);
    for (std::int64_t i = 0; i < rows.tiles(); ++i) {
      const std::int64_t vectors = vectors_of(i * block_tile_rows, j * columns);
      if (vectors <= 0) continue;
      BlockTile<Real> sums;
      if (vectors == 1)
        rows.template multiply<1>(i, panel, prefetch, sums);
      else
        rows.template multiply<2>(i, panel, prefetch, sums);
      store(sums, i * block_tile_rows, j * columns);
    }
  }
}

/// put(sums, to) for the parts of C's rows; `to` may have fewer elements than a tile has columns.
template <typename Real, typename Put>
inline void multiply_rows(const BlockShape& shape, const BlockOperand<Real>& a,
                          const BlockOperand<Real>& b, const MemoryAhead& ahead, Real* c,
                          std::int64_t stride, Real* scratch, const Put& put) {
  constexpr std::int64_t columns = block_tile_columns<Real>;
  multiply_tiles(
      shape, a, b, ahead, scratch, [](std::int64_t, std::int64_t) { return 2; },
      [&](const BlockTile<Real>& tile, std::int64_t row, std::int64_t column) {
        const std::int64_t rows = std::min<std::int64_t>(block_tile_rows, shape.rows - row);
        const std::int64_t width = std::min(columns, shape.columns - column);
        Real* to = c + row * stride + column;
        for (std::int64_t i = 0; i < rows; ++i, to += stride) put(tile[i], to, width);
      });
}

template <typename Real>
void multiply_block(const BlockShape& shape, const BlockOperand<Real>& a,
                    const BlockOperand<Real>& b, const MemoryAhead& ahead, Real* c,
                    std::int64_t stride, Real* scratch) {
  multiply_rows(shape, a, b, ahead, c, stride, scratch,
                [](const BlockTileRow<Real>& sums, Real* to, std::int64_t width) {
                  if (width == block_tile_columns<Real>)
                    __builtin_memcpy(to, &sums, sizeof(sums));
                  else
                    __builtin_memcpy(to, &sums, static_cast<std::size_t>(width) * sizeof(Real));
                });
}

template <typename Real>
void subtract_block(const BlockShape& shape, const BlockOperand<Real>& a,
                    const BlockOperand<Real>& b, Real* c, std::int64_t stride, Real* scratch) {
  multiply_rows(shape, a, b, {}, c, stride, scratch,
                [](const BlockTileRow<Real>& sums, Real* to, std::int64_t width) {
                  if (width == block_tile_columns<Real>) {
                    BlockTileRow<Real> old;
                    __builtin_memcpy(&old, to, sizeof(old));
                    old[0] -= sums[0];
                    old[1] -= sums[1];
                    __builtin_memcpy(to, &old, sizeof(old));
                  } else {
                    Real some[block_tile_columns<Real>];
                    __builtin_memcpy(some, &sums, sizeof(some));
                    for (std::int64_t i = 0; i < width; ++i) to[i] -= some[i];
                  }
                });
}

template <typename Real>
void accumulate_block(const BlockShape& shape, const BlockOperand<Real>& a,
                      const BlockOperand<Real>& b, const MemoryAhead& ahead, Real keep, Real add,
                      Real* factor, bool packed, Real* scratch) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  multiply_tiles(
      shape, a, b, ahead, scratch,
      [](std::int64_t row, std::int64_t column) {
        return (row + block_tile_rows - column + lanes - 1) / lanes;
      },
      [&](const BlockTile<Real>& tile, std::int64_t row, std::int64_t column) {
        const std::int64_t rows = std::min<std::int64_t>(block_tile_rows, shape.rows - row);
        for (std::int64_t i = 0; i < rows; ++i) {
          Real* const to = factor + triangle_row(packed, shape.rows, row + i);
          for (int v = 0; v < 2; ++v) {
            const std::int64_t first = column + v * lanes, width = row + i + 1 - first;
            if (width <= 0) break;
            if (first + lanes <= shape.rows) {
              // What lies behind the triangle's row is written as it was.
              const auto old = load(to + first);
              store(first_lanes<Real>(width, keep * old + add * tile[i][v], old), to + first);
            } else {
              Real sums[lanes];
              store(tile[i][v], sums);
              for (std::int64_t c = 0; c < width; ++c)
                to[first + c] = keep * to[first + c] + add * sums[c];
            }
          }
        }
      });
}

}  // namespace
}  // namespace shampoo::kernels
