// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/launch/thread_block.h"

namespace shampoo::kernels::cuda {

/// values[0] <- combine of all values, in the order of a binary tree. Ends with a sync().
template <typename Threads, typename T, typename Combine>
SHAMPOO_BOTH void reduce(Threads& block, T* values, Combine&& combine) {
  static_assert((Threads::count & (Threads::count - 1)) == 0, "a power of two");
  block.sync();
  for (int half = Threads::count / 2; half > 0; half /= 2) {
    block.each([&](int thread) {
      if (thread < half) values[thread] = combine(values[thread], values[thread + half]);
    });
    block.sync();
  }
}

}  // namespace shampoo::kernels::cuda
