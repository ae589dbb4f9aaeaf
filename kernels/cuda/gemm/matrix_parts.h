// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/thread_block.h"
#include "kernels/types.h"

/// How matrices are cut into parts for blocks of threads, by their side only.
namespace shampoo::kernels::cuda {

/// Side of the tiles of symmetric matrices.
inline constexpr int mirrored_side = 64;

SHAMPOO_BOTH constexpr std::int64_t ceiling(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

/// Tiles in the lower triangle of a square of tiles, its diagonal included.
SHAMPOO_BOTH constexpr std::int64_t lower_tiles(std::int64_t side, std::int64_t tile) {
  const std::int64_t tiles = ceiling(side, tile);
  return tiles * (tiles + 1) / 2;
}

struct TileIndex {
  std::int64_t row = 0, column = 0;  ///< column <= row
};

SHAMPOO_BOTH constexpr TileIndex lower_tile(std::int64_t number) {
  std::int64_t row = 0;
  while (number > row) number -= ++row;
  return {row, number};
}

/// Whole rows of a matrix.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

inline constexpr std::int64_t most_row_parts = 65536;

/// Rows of a part: about 16384 elements.
SHAMPOO_BOTH constexpr std::int64_t rows_of_parts(std::int64_t side) {
  return side > 16384 ? ceiling(side, most_row_parts) : 16384 / side;
}
SHAMPOO_BOTH constexpr std::int64_t row_parts(std::int64_t side) {
  return ceiling(side, rows_of_parts(side));
}
/// Parts of one matrix X of a group, for for_each_batch().
template <typename Group>
std::int64_t row_parts_of(const Group& group) {
  return row_parts(group.x.side);
}
/// The same where a matrix is not divided.
template <typename Group>
std::int64_t one_part(const Group&) {
  return 1;
}
SHAMPOO_BOTH constexpr RowRange row_part(std::int64_t side, std::int64_t part) {
  const std::int64_t rows = rows_of_parts(side), first = part * rows;
  return {first, side - first < rows ? side - first : rows};
}

/// True if element `number` of whole rows, one after the other, is on the matrix's diagonal. Row r
/// of them has it at r (side + 1) + rows.first; division by 32 bits is a fraction of that by 64.
SHAMPOO_BOTH constexpr bool is_on_diagonal(std::int64_t side, const RowRange& rows,
                                           std::int64_t number) {
  const auto next = static_cast<std::uint32_t>(side + 1);
  return static_cast<std::uint32_t>(number + side + 1 - rows.first) % next == 0;
}

/// body(null pointer to float or double)
template <typename Body>
SHAMPOO_BOTH inline void with_real(Type type, Body&& body) {
  if (type == Type::float64)
    body(static_cast<double*>(nullptr));
  else
    body(static_cast<float*>(nullptr));
}

/// The bare type of what with_real() and with_type() give.
template <typename Pointer>
struct Pointed;
template <typename T>
struct Pointed<T*> {
  using type = T;
};
template <typename T>
struct Pointed<const T*> {
  using type = T;
};
template <typename Pointer>
using Element = typename Pointed<Pointer>::type;

/// Keeps a number that is not one wherever it stands.
SHAMPOO_BOTH constexpr double largest_of(double a, double b) {
  return a >= b ? a : b > a ? b : a + b;
}

template <typename Real>
SHAMPOO_BOTH constexpr bool is_finite_real(Real x) {
  return x - x == 0;
}

}  // namespace shampoo::kernels::cuda
