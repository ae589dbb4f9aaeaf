// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/memory.h"

namespace shampoo::kernels {

/// Names, for profilers, the work that is queued during its lifetime.
class Range {
 public:
  Range(Memory& memory, const char* name) : memory_(memory) { memory_.begin_range(name); }
  ~Range() { memory_.end_range(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  Memory& memory_;
};

}  // namespace shampoo::kernels
