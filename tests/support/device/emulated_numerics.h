// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/device/device.h"

namespace shampoo::test {

/// What libraries do on a device. Reads and writes the memory that it is given at once.
void multiply_now(const kernels::cuda::Product& product);
void decompose_now(const kernels::cuda::EigenProblem& problem);

}  // namespace shampoo::test
