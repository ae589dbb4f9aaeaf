// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/strided_span.h"
#include "kernels/rules/gradient_rule.h"
#include "kernels/views.h"

namespace shampoo::kernels::cuda {

/// W, from the master where there is one.
SHAMPOO_BOTH inline StridedSpan weight_span(const Tensors& tensors, const Tile& tile,
                                            const Block& block, const void* masters) {
  if (masters == nullptr || block.master < 0) return value_span(tensors, tile);
  const float* const first =
      static_cast<const float*>(masters) + block.master + (tile.flat - block.flat);
  return packed(const_cast<float*>(first), Type::float32);
}

/// G, a group at a time.
template <typename Real>
class Gradient {
 public:
  SHAMPOO_BOTH Gradient(const PassContext& context, const Tile& tile, const Block& block,
                        const void* masters)
      : gradient_(gradient_span(context.elements.tensors, tile)),
        rule_(context.scale_of(tile.tensor), context.gradient_limit,
              context.coefficients[tile.block]) {
    if (rule_.decays) weights_ = weight_span(context.elements.tensors, tile, block, masters);
  }

  SHAMPOO_BOTH void read(std::int32_t i, std::int32_t count, Real (&g)[group_size]) const {
    cuda::read(gradient_, i, count, g);
    if (rule_.scales) {
      for (int k = 0; k < group_size; ++k) g[k] = rule_.scaled(g[k]);
    }
    if (!rule_.decays) return;
    Real w[group_size];
    cuda::read(weights_, i, count, w);
    for (int k = 0; k < group_size; ++k) g[k] = rule_.decayed(g[k], w[k]);
  }

 private:
  StridedSpan gradient_, weights_;
  GradientRule<Real> rule_;
};

}  // namespace shampoo::kernels::cuda
