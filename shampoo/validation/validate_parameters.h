// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shampoo/group.h"

namespace shampoo {

/// Bytes [first, last) that a run of elements takes.
struct ByteRange {
  std::uintptr_t first = 0, last = 0;
  int parameter = 0;  ///< row; see RegisteredParameter
};

/// The runs of consecutive bytes of a tensor. `row`: ByteRange::parameter.
std::vector<ByteRange> runs_of(const Tensor& tensor, std::span<const std::int64_t> shape, int row);

/// One of the ranges, which are disjoint and sorted by address, that shares bytes with the tensor;
/// null: none does.
const ByteRange* overlapping(std::span<const ByteRange> ranges, const Tensor& tensor,
                             std::span<const std::int64_t> shape);

/// The memory of all values, by address: what gradients must stay clear of.
class ValueMemory {
 public:
  /// Throws std::invalid_argument where the values of two parameters, or two elements of one,
  /// overlap. `groups` are all groups of the optimizer.
  explicit ValueMemory(std::span<const ParameterGroup> groups);
  ValueMemory() = default;

  /// True if a value shares memory with this tensor.
  bool overlaps(const Tensor& tensor, std::span<const std::int64_t> shape) const {
    return overlapping(runs_, tensor, shape) != nullptr;
  }

 private:
  std::vector<ByteRange> runs_;
};

/// Checks names, shapes, boxes, pointers, types and strides of all groups, then that nothing
/// overlaps a value. Throws std::invalid_argument that names group, parameter and field.
/// Gradients may overlap each other: a step only reads them.
ValueMemory validate_parameters(std::span<const ParameterGroup> groups);

/// Throws std::invalid_argument that names `call` and a parameter where two elements of gradients
/// share memory, so that what scales all of them where they are would scale one twice.
void require_distinct_gradients(const std::string& call,
                                std::span<const Parameter* const> parameters);

/// In elements; 1 for a side of 0 or 1, where they have no meaning.
std::vector<std::int64_t> strides_of(const Tensor& tensor, const std::vector<std::int64_t>& shape);

/// `group`: see title_of(). Throws std::invalid_argument where type or strides are not those of the
/// parameter's gradient.
void validate_same_layout(const Parameter& parameter, const std::string& group,
                          const Tensor& gradient);

/// The check of one gradient pointer that was changed since.
void validate_gradient(const Parameter& parameter, const std::string& group,
                       const ValueMemory& values);

}  // namespace shampoo
