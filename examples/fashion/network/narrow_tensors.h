// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/fashion/network/network.h"

namespace fashion {

enum class Precision : std::uint8_t { fp32, bf16, fp16 };

/// Values and gradients of a network's tensors in 16 bits, beside those in float32 that it computes
/// with. Rounds to nearest, ties to even; what is too large becomes infinite.
class NarrowTensors {
 public:
  struct Tensor {
    float *wide_value, *wide_gradient;  ///< the network's
    std::vector<std::uint16_t> value, gradient;
  };

  /// `precision`: bf16 or fp16. Values are those of the network, rounded, on both sides. Borrows
  /// the network.
  NarrowTensors(Network<float>& network, Precision precision);

  /// In the order of the network's.
  std::span<Tensor> tensors() { return tensors_; }
  /// The network's values <- these.
  void widen_values();
  /// These <- the network's.
  void round_values();
  void round_gradients();

 private:
  Precision precision_;
  std::vector<Tensor> tensors_;
};

}  // namespace fashion
