// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/buffer.h"

namespace gpt2_slab {

/// Numbers in bfloat16, in the memory of a backend, and what the host last wrote or read of them.
class Slab {
 public:
  Slab(shampoo::Backend& backend, std::int64_t elements);

  /// Of an element, in the backend's memory.
  void* at(std::int64_t element) const;

  void write();  ///< backend <- host; waits
  void read();   ///< host <- backend; waits

  std::vector<std::uint16_t> host;

 private:
  shampoo::Backend& backend_;
  shampoo::kernels::Buffer memory_;
};

/// To the nearest, ties to even. For finite numbers.
std::uint16_t to_bfloat16(float x);
float to_float(std::uint16_t x);

}  // namespace gpt2_slab
