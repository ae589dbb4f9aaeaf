// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "grouping/box.h"
#include "kernels/types.h"

namespace shampoo {

using grouping::Box;

/// Where the elements of a tensor lie, in the backend's memory. Borrowed.
struct Tensor {
  void* data = nullptr;
  Type type = Type::float32;
  std::vector<std::int64_t> strides;  ///< in elements, >= 0; row-major unless given

  Tensor() = default;
  Tensor(float* elements) : data(elements) {}
  Tensor(double* elements) : data(elements), type(Type::float64) {}
  Tensor(void* elements, Type element_type, std::vector<std::int64_t> element_strides = {})
      : data(elements), type(element_type), strides(std::move(element_strides)) {}
};

/// One tensor of the caller's model. Values and gradients are borrowed: they must outlive the
/// optimizer, which writes the value in step() and never writes the gradient.
struct Parameter {
  std::string name = {};  ///< unique among all parameters of the optimizer, not empty
  std::vector<std::int64_t> shape = {};  ///< global shape; empty: a scalar
  /// The part that is here; all of it unless set. Other boxes are refused.
  std::optional<Box> box = std::nullopt;
  Tensor value = {};     ///< of any type; 16-bit values get float32 masters
  Tensor gradient = {};  ///< own type and strides; a null pointer: absent
};

}  // namespace shampoo
