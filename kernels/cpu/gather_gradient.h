// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

/// Where G of blocks comes from.
struct GradientContext {
  const PassContext& phase;
  const VectorLevel& level;
  const float* masters;
};

/// to <- G of a block: the scaled gradient plus L2 decay, its elements back to back.
template <typename Real>
void gather_gradient(const GradientContext& context, std::int64_t block, Real* to) {
  const TileTable& elements = context.phase.elements;
  const Block& b = elements.blocks[block];
  for (std::int32_t k = 0; k < b.tile_count; ++k) {
    const Tile& tile = elements.tiles[b.first_tile + k];
    context.level.in<Real>().gather(
        {elements.tensors, tile, b, context.phase.coefficients[block], context.phase.modes[block],
         *context.phase.gradient_scale, context.masters},
        to + (tile.flat - b.flat));
  }
}

}  // namespace shampoo::kernels
