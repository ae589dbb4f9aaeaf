// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/parameter.h"

namespace shampoo {

/// Where the elements of an extra lie, in the backend's memory. Of any type that safetensors files
/// have, also of those that nothing is computed with. Borrowed.
struct ExtraElements {
  void* data = nullptr;
  checkpoint::Dtype dtype = checkpoint::Dtype::f32;
  std::vector<std::int64_t> strides = {};  ///< those of a row-major tensor, or none

  ExtraElements() = default;
  ExtraElements(float* elements) : data(elements) {}
  ExtraElements(double* elements) : ExtraElements(elements, checkpoint::Dtype::f64) {}
  ExtraElements(std::int64_t* elements) : ExtraElements(elements, checkpoint::Dtype::i64) {}
  ExtraElements(std::int32_t* elements) : ExtraElements(elements, checkpoint::Dtype::i32) {}
  ExtraElements(std::uint64_t* elements) : ExtraElements(elements, checkpoint::Dtype::u64) {}
  ExtraElements(std::uint32_t* elements) : ExtraElements(elements, checkpoint::Dtype::u32) {}
  ExtraElements(std::uint8_t* elements) : ExtraElements(elements, checkpoint::Dtype::u8) {}
  ExtraElements(const Tensor& tensor)
      : data(tensor.data), dtype(checkpoint::dtype_of(tensor.type)), strides(tensor.strides) {}
  ExtraElements(void* elements, checkpoint::Dtype element_type)
      : data(elements), dtype(element_type) {}
};

/// A tensor of the trainer: a parameter's value, an average of it, the state of a generator of
/// random numbers, ... The same on all ranks. A load wants the dtype and the shape that were saved,
/// and converts nothing.
struct ExtraTensor {
  std::string name = {};                 ///< unique among the extras, UTF-8, not empty
  std::vector<std::int64_t> shape = {};  ///< empty: a scalar
  ExtraElements tensor = {};
};

using ExtraValue = std::variant<std::int64_t, double, std::string>;

/// What a trainer keeps beside the optimizer's state, and finds again when it goes on.
struct Extras {
  std::vector<ExtraTensor> tensors = {};
  std::map<std::string, ExtraValue> values = {};  ///< names and texts are UTF-8
};

}  // namespace shampoo
