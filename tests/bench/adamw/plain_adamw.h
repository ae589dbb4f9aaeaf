// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo::test {

/// Numbers of one step of AdamW.
struct PlainAdamW {
  float beta1 = 0.9F, beta2 = 0.999F, epsilon = 1e-8F, learning_rate = 1e-3F, weight_decay = 0.01F;
  float first_correction = 1, second_correction = 1;  ///< 1 / (1 - beta^t)

  /// What a step costs at least: one fused loop, compiled for this processor, without a look at
  /// whether gradients are finite [Loshchilov 2019].
  void step(const float* g, std::int64_t count, float* w, float* m, float* v) const;
};

}  // namespace shampoo::test
