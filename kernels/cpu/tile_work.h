// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cpu/simd/vector_kernels.h"

namespace shampoo::kernels {

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

}  // namespace shampoo::kernels
