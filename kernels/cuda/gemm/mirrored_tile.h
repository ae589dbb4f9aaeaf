// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm/formed_matrix.h"
#include "kernels/cuda/gemm/matrix_parts.h"

/// Tiles of symmetric matrices, of which each stands for the one that mirrors it, too.
namespace shampoo::kernels::cuda {

/// Read along rows and along columns: with one more column no more than two threads of a warp meet
/// in a bank.
template <typename Real>
struct MirroredTile {
  Real v[mirrored_side][mirrored_side + 1];
};

/// Of either type.
union AnyMirroredTile {
  MirroredTile<float> in_float;
  MirroredTile<double> in_double;

  SHAMPOO_BOTH MirroredTile<float>& of(float*) { return in_float; }
  SHAMPOO_BOTH MirroredTile<double>& of(double*) { return in_double; }
};

/// Where a tile of the lower triangle begins.
struct TilePlace {
  std::int64_t top = 0, left = 0;

  /// True if the tile's element is one of the lower triangle of a matrix of side n.
  SHAMPOO_BOTH constexpr bool has_lower(std::int64_t n, int row, int column) const {
    return top + row < n && left + column <= top + row;
  }
};
SHAMPOO_BOTH constexpr TilePlace tile_place(std::int64_t part, int side = mirrored_side) {
  const TileIndex tile = lower_tile(part);
  return {tile.row * side, tile.column * side};
}

/// body(row, column) for all groups of eight of a tile.
template <int Side = mirrored_side, typename Threads, typename Body>
SHAMPOO_BOTH void for_each_eight(Threads& block, Body&& body) {
  constexpr int across = Side / 8;
  block.each([&](int thread) {
    for (int e = thread; e < Side * across; e += Threads::count) body(e / across, e % across * 8);
  });
}

/// tile(row, column) <- element(row, column) where that exists, as that of (0, 0) must, else 0;
/// neighbouring threads take neighbours in a row, or, Down, in a column. What several elements load
/// is under way before the first of them is converted or stored: nothing branches around a load.
template <bool Down, typename Real, typename Threads, typename Exists, typename Load>
SHAMPOO_BOTH void fill_tile(Threads& block, MirroredTile<Real>& tile, Exists&& exists,
                            Load&& element) {
  constexpr int side = mirrored_side, step = Threads::count / side, at_once = 8;
  static_assert(Threads::count % side == 0 && side % (step * at_once) == 0);
  block.each([&](int thread) {
    const int across = thread % side;
    for (int first = thread / side; first < side; first += step * at_once) {
      Real loaded[at_once];
      for (int k = 0; k < at_once; ++k) {
        const int row = Down ? across : first + k * step, column = Down ? first + k * step : across;
        const bool takes = exists(row, column);
        const Real x = element(takes ? row : 0, takes ? column : 0);
        loaded[k] = takes ? x : Real(0);
      }
      for (int k = 0; k < at_once; ++k) {
        const int down = first + k * step;
        (Down ? tile.v[across][down] : tile.v[down][across]) = loaded[k];
      }
    }
  });
}

/// tile <- the transpose of the matrix's upper tile; 0 behind its sides
template <typename Real, typename Matrix, typename Threads>
SHAMPOO_BOTH void load_mirrored(Threads& block, MirroredTile<Real>& tile, const Matrix& from,
                                TilePlace at) {
  for_each_eight(block, [&](int row, int column) {
    const auto above = from.load(at.left + row, at.top + column);
    for (int k = 0; k < 8; ++k) tile.v[column + k][row] = above.v[k];
  });
}

/// The matrix's upper tile <- the transpose of `tile`
template <typename Real, typename Matrix, typename Threads>
SHAMPOO_BOTH void store_mirrored(Threads& block, const MirroredTile<Real>& tile, const Matrix& to,
                                 TilePlace at) {
  for_each_eight(block, [&](int row, int column) {
    EightOf<Real> x;
    for (int k = 0; k < 8; ++k) x.v[k] = tile.v[column + k][row];
    to.store(at.left + row, at.top + column, x);
  });
}

/// Both of the matrix's tiles <- `tile`, of which only elements (i, j) with j <= i of the matrix
/// count.
template <typename Real, typename Matrix, typename Threads>
SHAMPOO_BOTH void store_both(Threads& block, const MirroredTile<Real>& tile, const Matrix& to,
                             TilePlace at) {
  const bool on_diagonal = at.top == at.left;
  for_each_eight(block, [&](int row, int column) {
    EightOf<Real> x;
    for (int k = 0; k < 8; ++k)
      x.v[k] = on_diagonal && row < column + k ? tile.v[column + k][row] : tile.v[row][column + k];
    to.store(at.top + row, at.left + column, x);
  });
  if (!on_diagonal) store_mirrored(block, tile, to, at);
}

}  // namespace shampoo::kernels::cuda
