// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/buffer.h"

namespace shampoo::kernels {

/// Memory that is used for one thing at a time: the matrices of one of several solvers, or
/// directions. Each use finds there what the one before has left.
class ScratchMemory {
 public:
  /// Makes it at least as long; if that throws, there is none. Not while work that uses it is
  /// queued.
  void reserve(Backend& backend, std::size_t bytes) {
    if (bytes <= memory_.bytes()) return;
    memory_ = {};  // there may not be room for both
    memory_ = Buffer(backend, bytes);
  }

  void* data() const { return memory_.data(); }
  std::size_t bytes() const { return memory_.bytes(); }

 private:
  Buffer memory_;
};

}  // namespace shampoo::kernels
