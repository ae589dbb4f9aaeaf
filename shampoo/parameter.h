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

/// One tensor of the caller's model. Borrowed: value and gradient must outlive the optimizer.
/// step() writes the value and never the gradient. Group::set_gradient() changes where it lies.
struct Parameter {
  std::string name = {};  ///< unique among all parameters of the optimizer, not empty
  std::vector<std::int64_t> shape = {};  ///< global shape; empty: a scalar
  /// Reserved: only the whole tensor is accepted, std::invalid_argument otherwise.
  std::optional<Box> box = std::nullopt;
  Tensor value = {};     ///< of any type; 16-bit values get float32 masters
  Tensor gradient = {};  ///< own type and strides; null data: absent, as grad = None
};

}  // namespace shampoo
