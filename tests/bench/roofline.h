// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/support/models.h"

namespace shampoo::test {

/// What a machine can do at most.
struct Machine {
  double flops_per_second = 0;  ///< sgemm of 1024 x 1024 matrices, one call on every thread
  double bytes_per_second = 0;  ///< a[i] += b[i] over 64 MiB arrays, one pair on every thread
};

/// Fastest of several tries. BLAS must have been set to one thread per call.
Machine measure_machine(int threads);

/// What a plain step cannot do without, in float32 with Adam grafting.
struct Work {
  double flops = 0;  ///< half of a symmetric product for factors, full products with roots
  double bytes = 0;  ///< gradient, root: read once; value, moments, factor: read and written
};

Work plain_step_work(const Model& model, std::int64_t block_size);

}  // namespace shampoo::test
