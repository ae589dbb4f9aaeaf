// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

/// A filter and an update of an element take the time of so many operations of a product:
/// tests/bench/README.md, "Placement".
constexpr double element_passes = 140;

/// A tile in a step. `masters`: of the virtual group, or null.
inline Work work_on(const PassContext& context, const Tile& tile, const void* masters) {
  return {context.elements.tensors,
          tile,
          context.elements.blocks[tile.block],
          context.coefficients[tile.block],
          context.modes[tile.block],
          context.scale_of(tile.tensor),
          static_cast<const float*>(masters),
          context.gradient_limit};
}

/// body(part) for parts of a block's tiles, which are tiles of whole rows or of a part of one, and
/// together have the `count` elements of the block from `begin` on.
template <typename Body>
void for_each_tile_part(const TileTable& elements, std::int64_t row, std::int64_t begin,
                        std::int64_t count, const Body& body) {
  const Block& block = elements.blocks[row];
  const Tile* const tiles = elements.tiles + block.first_tile;
  std::int64_t at = block.flat + begin;
  const std::int64_t end = at + count;
  const auto starts_after = [](std::int64_t flat, const Tile& tile) { return flat < tile.flat; };
  for (const Tile* tile = std::upper_bound(tiles, tiles + block.tile_count, at, starts_after) - 1;
       at < end; ++tile) {
    const std::int64_t tile_end = tile->flat + std::int64_t{tile->rows} * tile->columns;
    while (at < std::min(end, tile_end)) {
      const std::int64_t in_tile = at - tile->flat, left = std::min(end, tile_end) - at;
      const std::int64_t i = in_tile / tile->columns, j = in_tile % tile->columns;
      const bool whole_rows = j == 0 && left >= tile->columns;
      Tile part = *tile;
      part.flat = at;
      part.value += i * tile->value_row + j * tile->value_column;
      part.gradient += i * tile->gradient_row + j * tile->gradient_column;
      part.rows = whole_rows ? static_cast<std::int32_t>(left / tile->columns) : 1;
      part.columns =
          whole_rows ? tile->columns : static_cast<std::int32_t>(std::min(tile->columns - j, left));
      body(part);
      at += std::int64_t{part.rows} * part.columns;
    }
  }
}

}  // namespace shampoo::kernels
