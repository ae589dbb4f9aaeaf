// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "shampoo/shampoo.h"

namespace gpt {

/// Numbers in float32 or bfloat16 in the memory of a backend, which is a GPU's with CUDA, and the
/// same numbers in float32 on the host, where the model computes.
class Slab {
 public:
  Slab(shampoo::Backend& backend, std::int64_t elements, shampoo::Type type);

  /// From an element on, in the backend's memory.
  shampoo::Tensor at(std::int64_t element) const;
  shampoo::TensorSpan all() const;

  void write();  ///< backend <- host, rounded to nearest even; waits
  void read();   ///< host <- backend; waits

  std::vector<float> host;

 private:
  std::size_t bytes() const;

  shampoo::Backend& backend_;
  shampoo::Type type_;
  std::vector<std::uint16_t> rounded_;  ///< in bfloat16, on the way
  std::unique_ptr<void, std::function<void(void*)>> memory_;
};

}  // namespace gpt
