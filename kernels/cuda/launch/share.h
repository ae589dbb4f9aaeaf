// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/cuda/launch/thread_block.h"

namespace shampoo::kernels::cuda {

/// Index of the share that contains `block`, among `count` (> 0) consecutive shares of the blocks
/// of a launch, which start at the ascending first[0] = 0, first[1], ...
SHAMPOO_BOTH inline int share_with(std::int64_t block, const std::int64_t* first, int count) {
  int low = 0;
  for (int high = count; high - low > 1;) {
    const int middle = (low + high) / 2;
    (first[middle] <= block ? low : high) = middle;
  }
  return low;
}

}  // namespace shampoo::kernels::cuda
