// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "kernels/cpu/simd/vector_lanes.h"

/// Which sums of a product are in registers together. Internal linkage: see block_product_tiles.h.
namespace shampoo::kernels {
namespace {

/// Rows, and vectors of columns. Beside the sums there are a row of B and an element of A; four
/// vectors to a row take fewer loads than two for as many sums.
struct TileShape {
  int rows, vectors;
};
constexpr TileShape large_tile = vector_bytes == 64 ? TileShape{6, 4} : TileShape{4, 3};
/// For at most few_rows rows, where it computes fewer beyond the last one, as of 64 and 128.
constexpr TileShape low_tile = vector_bytes == 64 ? TileShape{4, 4} : TileShape{4, 3};
constexpr std::int64_t few_rows = 128;
/// For products with no more columns than it has.
constexpr TileShape narrow_tile = vector_bytes == 64 ? TileShape{8, 2} : TileShape{6, 2};

/// No tile has more vectors of sums.
constexpr int most_sums = large_tile.rows * large_tile.vectors;

/// Rows of a tile of so many vectors at the diagonal. They divide the columns of a vector.
template <typename Real>
constexpr int diagonal_rows(int vectors) {
  constexpr int lanes = Vector<Real>::lanes;
  return static_cast<int>(
      std::bit_floor(static_cast<unsigned>(std::min(lanes, most_sums / vectors))));
}

/// Vectors of the widest tile at the diagonal; wider ones would have fewer rows than `tile`.
template <TileShape tile, typename Real>
constexpr int diagonal_vectors() {
  int vectors = tile.vectors;
  while (vectors > 0 && diagonal_rows<Real>(vectors) < tile.rows) --vectors;
  return vectors;
}

/// Rows [row, end) of a panel of columns, in its first `vectors` vectors. At the diagonal of a
/// triangle these rows are columns of the panel, too.
struct TileRange {
  std::int64_t row, end;
  int vectors;
  bool at_diagonal;
};

/// body(TileRange) for tiles that make `rows` rows of `across` vectors of columns from `column` on,
/// or what a lower triangle has of them.
template <TileShape tile, bool is_triangle, typename Real, typename Body>
inline void for_each_tile(std::int64_t rows, std::int64_t column, int across, const Body& body) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  std::int64_t row = is_triangle ? column : 0;
  if constexpr (is_triangle)
    for (int vectors = 1; vectors <= std::min(across, diagonal_vectors<tile, Real>()); ++vectors) {
      const std::int64_t end = std::min(column + vectors * lanes, rows);
      for (const int height = diagonal_rows<Real>(vectors); row < end; row += height)
        body(TileRange{row, std::min(row + height, rows), vectors, true});
    }
  for (std::int64_t next = 0; row < rows; row = next) {
    next = (row / tile.rows + 1) * tile.rows;
    body(TileRange{row, std::min(next, rows), across, false});
  }
}

/// body(first column, vectors) for panels of about the same width
template <typename Real, typename Body>
inline void for_each_column_panel(std::int64_t columns, int most_vectors, const Body& body) {
  constexpr std::int64_t lanes = Vector<Real>::lanes;
  std::int64_t column = 0, rest = (columns + lanes - 1) / lanes;
  for (std::int64_t panels = (rest + most_vectors - 1) / most_vectors; panels > 0; --panels) {
    const std::int64_t vectors = (rest + panels - 1) / panels;
    body(column, static_cast<int>(vectors));
    column += vectors * lanes;
    rest -= vectors;
  }
}

}  // namespace
}  // namespace shampoo::kernels
