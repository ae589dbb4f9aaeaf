// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/staged_array.h"
#include "shampoo/update/element_table.h"

namespace shampoo {

/// Throws std::invalid_argument that names the parameter for a shape or strides that are none.
void check_shapes(std::span<const Parameter> parameters);

/// Tensors outside of an optimizer, in one table: a launch serves all of them.
class GradientList {
 public:
  /// Reads the gradients of the parameters, and writes `to`, one tensor each.
  GradientList(kernels::Backend& backend, std::span<const Parameter> parameters,
               std::span<const Tensor> to);

  /// Null: absent. From the next call on.
  void set_gradient(std::size_t j, const void* data) { gradients_[j] = data; }
  /// to <- keep to + add gradient where it is present. Queued.
  void accumulate(double keep, double add);
  /// to <- factor to. Queued.
  void scale(double factor);
  /// Of all present gradients together; NaN where one is not finite. Waits.
  double squared_norm();

 private:
  kernels::Tensors upload(double keep, double add);

  kernels::Backend& backend_;
  Type arithmetic_ = Type::float32;
  ElementTable table_;
  kernels::StagedArrays columns_;
  kernels::StagedArray<void*> to_;
  kernels::StagedArray<const void*> gradients_;
  kernels::StagedArray<Type> to_types_, gradient_types_;
  kernels::StagedArray<double> weights_;
  kernels::Buffer scan_;
  kernels::Settled settled_;
};

}  // namespace shampoo
