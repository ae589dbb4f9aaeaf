// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "kernels/cuda/device/device.h"

namespace shampoo::test {

/// What a launch has to do. Operands come from memory once per launch, however many tiles read
/// them.
struct KernelCost {
  double bytes = 0;  ///< read and written in the device's memory
  double flops = 0;  ///< whole tiles, as kernels compute them

  KernelCost& operator+=(const KernelCost& more) {
    bytes += more.bytes;
    flops += more.flops;
    return *this;
  }
};

/// "Gram<float, 128>"
std::string name_of(const kernels::cuda::Kernel& kernel);

/// Of a launch whose tables the host can read, with the modes and coefficients that they hold now;
/// nothing for kernels without a line in kernel_assumptions.cpp.
KernelCost cost_of(const kernels::cuda::Kernel& kernel);
KernelCost cost_of(const kernels::cuda::Product& product);

}  // namespace shampoo::test
