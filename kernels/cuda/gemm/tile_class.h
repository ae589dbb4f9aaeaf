// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/batch.h"
#include "kernels/types.h"

namespace shampoo::kernels::cuda {

/// Sides up to this go through tiles of 64 x 64, others in float32 through tiles of 128 x 128.
/// float64 has half the multipliers and twice the registers per sum: always the smaller tiles.
inline constexpr std::int64_t longest_small_side = 64;

template <typename Real, int Tile>
struct TileClass {
  using real = Real;
  static constexpr int tile = Tile;
  static constexpr Type type = sizeof(Real) == sizeof(float) ? Type::float32 : Type::float64;

  static constexpr bool has(Type arithmetic, std::int64_t side) {
    if (arithmetic != type) return false;
    return type == Type::float64 || (side <= longest_small_side) == (tile == 64);
  }
};

/// body(class) for every class of tiles.
template <typename Body>
void for_each_tile_class(Body&& body) {
  body(TileClass<float, 64>());
  body(TileClass<float, 128>());
  body(TileClass<double, 64>());
}

}  // namespace shampoo::kernels::cuda
