// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "shampoo/group.h"
#include "shampoo/kernels/backend.h"

/// Gradients outside of an optimizer's step. Of a parameter only name, shape and gradient are
/// looked at, and where its value lies. All work is queued on the backend, in one launch for all
/// tensors.
namespace shampoo {

/// g <- min(1, max_norm / (|g| + 1e-6)) g for all gradients that are present, where they are, with
/// their Euclidean norm together: torch.nn.utils.clip_grad_norm_. Gradients that have no finite
/// norm stay as they are; those with a norm above 2^126 max_norm may become 0. Returns the norm
/// before; 0 without gradients, NaN where one is not finite. Waits. Throws std::invalid_argument
/// unless max_norm is in (0, inf), for a shape that is none, and for gradients that share memory,
/// such as expanded ones of stride 0.
double clip_gradient_norm(Backend& backend, std::span<const Parameter> parameters, double max_norm);

struct AccumulationOptions {
  int micro_batches = 1;  ///< >= 1
  bool mean = true;       ///< over micro-batches, including those without a gradient; off: the sum
  /// Where the sums lie, a tensor for each parameter, which is set to 0: of the types below,
  /// row-major, borrowed, apart from values and gradients. Empty: memory of the accumulator's own.
  std::vector<Tensor> sums = {};
};

/// Sums of gradients over the micro-batches of a step: A <- A + w g with w = 1 / micro_batches, or
/// 1 for a sum. The sums are float64 for gradients in float64, otherwise float32. Backend and
/// gradients are borrowed and must outlive it.
class GradientAccumulator {
 public:
  /// Throws std::invalid_argument that names the option, or the parameter.
  GradientAccumulator(Backend& backend, std::vector<Parameter> parameters,
                      const AccumulationOptions& options = {});
  ~GradientAccumulator();
  GradientAccumulator(GradientAccumulator&&) noexcept;
  GradientAccumulator& operator=(GradientAccumulator&&) noexcept;

  /// The parameters with their sums as gradients, for the groups of an optimizer.
  const std::vector<Parameter>& parameters() const;
  /// Where the next micro-batches have the gradient of parameter j; null: absent. Throws
  /// std::out_of_range, and std::invalid_argument where it is not aligned to its elements or
  /// lies in a sum.
  void set_gradient(std::size_t j, void* data);
  /// Adds the present gradients of a micro-batch. After fewer than `micro_batches` of them
  /// since the last clear() the sums lack the others' shares, and a mean is as much smaller. Throws
  /// std::logic_error after more.
  void add();
  /// Calls Group::set_gradient() for the group's parameters that are among these, with null for one
  /// that was absent in all micro-batches. Throws std::invalid_argument where one has another
  /// shape, or its gradient another type or strides than the sum, with nothing changed.
  void set_gradients(Group& group) const;
  /// Sums <- 0. For the micro-batches of the next step.
  void clear();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace shampoo
