// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shampoo/kernels/backend.h"

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
  std::size_t bytes() const { return host.size() * sizeof(host[0]); }

  shampoo::Backend& backend_;
  std::unique_ptr<void, std::function<void(void*)>> memory_;
};

/// To the nearest, ties to even. For finite numbers.
std::uint16_t to_bfloat16(float x);
float to_float(std::uint16_t x);

}  // namespace gpt2_slab
