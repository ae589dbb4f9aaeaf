// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/elementwise/phase.h"
#include "kernels/cuda/elementwise/strided_span.h"

namespace shampoo::kernels::cuda {

/// W, from the master where there is one.
SHAMPOO_BOTH inline Strip weight_strip(const Tensors& tensors, const Tile& tile, const Block& block,
                                       const void* masters) {
  if (masters == nullptr || block.master < 0) return value_strip(tensors, tile);
  const float* const first =
      static_cast<const float*>(masters) + block.master + (tile.flat - block.flat);
  return packed(const_cast<float*>(first), Type::float32);
}

/// G = scale g + l2 W, a group at a time.
template <typename Real>
class Gradient {
 public:
  SHAMPOO_BOTH Gradient(const PhaseByValue& phase, const Tile& tile, const Block& block,
                        const void* masters)
      : gradient_(gradient_strip(phase.elements.tensors, tile)),
        scale_(static_cast<Real>(*phase.gradient_scale)),
        l2_(static_cast<Real>(phase.coefficients[tile.block].l2)),
        scales_(*phase.gradient_scale != 1),
        decays_(phase.coefficients[tile.block].l2 != 0) {
    if (decays_) weights_ = weight_strip(phase.elements.tensors, tile, block, masters);
  }

  SHAMPOO_BOTH void read(std::int32_t i, std::int32_t count, Real (&g)[group_size]) const {
    cuda::read(gradient_, i, count, g);
    if (scales_) {
      for (int k = 0; k < group_size; ++k) g[k] = scale_ * g[k];
    }
    if (!decays_) return;
    Real w[group_size];
    cuda::read(weights_, i, count, w);
    for (int k = 0; k < group_size; ++k) g[k] += l2_ * w[k];
  }

 private:
  Strip gradient_, weights_;
  Real scale_, l2_;
  bool scales_, decays_;
};

}  // namespace shampoo::kernels::cuda
