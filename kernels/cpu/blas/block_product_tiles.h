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

/// tile <- rows of A times a packed panel of B. Row i of A starts at a[i * row], its elements lie
/// `place` apart. Inlined into a long function, it would not keep its sums in registers.
template <typename Real>
__attribute__((noinline)) void multiply_panel(const Real* a, std::int64_t row, std::int64_t place,
                                              const Real* panel, std::int64_t depth,
                                              Prefetch& prefetch, BlockTile<Real>& tile) {
  using V = typename Vector<Real>::type;
  V sums[block_tile_rows][2] = {};
  const Real* rows[block_tile_rows];
  for (int i = 0; i < block_tile_rows; ++i) rows[i] = a + i * row;
  for (std::int64_t first = 0; first < depth; first += depth_part) {
    prefetch.next();
    const std::int64_t end = std::min(first + depth_part, depth);
    for (std::int64_t k = first; k < end; ++k, panel += block_tile_columns<Real>) {
      V b0, b1;
      __builtin_memcpy(&b0, panel, vector_bytes);
      __builtin_memcpy(&b1, panel + Vector<Real>::lanes, vector_bytes);
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

  void multiply(std::int64_t tile, const Real* panel, Prefetch& prefetch,
                BlockTile<Real>& sums) const {
    if (in_place_)
      multiply_panel(at(tile), row_, 1, panel, depth_, prefetch, sums);
    else
      multiply_panel(at(tile), 1, block_tile_rows, panel, depth_, prefetch, sums);
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

/// store(sums, row, column) for the tiles of A B with wants(row, column)
template <typename Real, typename Wants, typename Store>
inline void multiply_tiles(const BlockShape& shape, const BlockOperand<Real>& a,
                           const BlockOperand<Real>& b, const MemoryAhead& ahead, Real* scratch,
                           const Wants& wants, const Store& store) {
  constexpr std::int64_t columns = block_tile_columns<Real>;
  Real* const panel = scratch;
  const TileRows<Real> rows(shape, a, scratch + shape.depth * columns);
  const std::int64_t across = (shape.columns + columns - 1) / columns;
  std::int64_t wanted = 0;
  for (std::int64_t j = 0; j < across; ++j)
    for (std::int64_t i = 0; i < rows.tiles(); ++i)
      wanted += wants(i * block_tile_rows, j * columns);
  Prefetch prefetch(ahead, wanted * ((shape.depth + depth_part - 1) / depth_part));
  for (std::int64_t j = 0; j < across; ++j) {
    pack(b, shape.depth, j * columns, shape.columns, columns, panel);
    for (std::int64_t i = 0; i < rows.tiles(); ++i) {
      if (!wants(i * block_tile_rows, j * columns)) continue;
      BlockTile<Real> sums;
      rows.multiply(i, panel, prefetch, sums);
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
      shape, a, b, ahead, scratch, [](std::int64_t, std::int64_t) { return true; },
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
  constexpr std::int64_t columns = block_tile_columns<Real>;
  multiply_tiles(
      shape, a, b, ahead, scratch,
      [](std::int64_t row, std::int64_t column) { return column < row + block_tile_rows; },
      [&](const BlockTile<Real>& tile, std::int64_t row, std::int64_t column) {
        const std::int64_t rows = std::min<std::int64_t>(block_tile_rows, shape.rows - row);
        for (std::int64_t i = 0; i < rows; ++i) {
          Real sums[columns];
          __builtin_memcpy(sums, &tile[i], sizeof(sums));
          Real* const to = factor + triangle_row(packed, shape.rows, row + i) + column;
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
