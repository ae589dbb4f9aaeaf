// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/buffer.h"

namespace shampoo::kernels {

/// Memory for the dense matrices of any number of solvers, of which one runs at a time.
class SolverMatrices {
 public:
  /// Copies of a chunk's matrices that a solver has at most.
  static constexpr int most = 7;

  /// Makes the first `matrices` arrays at least as long. Not while a solver's work is queued.
  void reserve(Backend& backend, int matrices, std::size_t bytes) {
    for (int m = 0; m < matrices; ++m)
      if (memory_[m].bytes() < bytes) memory_[m] = Buffer(backend, bytes);
  }

  void* data(int matrix) const { return memory_[matrix].data(); }
  std::int64_t bytes() const {
    std::size_t sum = 0;
    for (const Buffer& memory : memory_) sum += memory.bytes();
    return static_cast<std::int64_t>(sum);
  }

 private:
  std::array<Buffer, most> memory_;
};

}  // namespace shampoo::kernels
