// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/solvers/polar_plan.h"
#include "kernels/views.h"

namespace shampoo::kernels {

/// Orthogonalisation of matrices. One call for all steps of the iteration: on the host a matrix
/// stays in the cache from its first step to the last, on CUDA the steps are products of batches.
class Orthogonalization {
 public:
  virtual ~Orthogonalization() = default;

  /// Allocates all scratch memory that orthogonalize() with these stacks will need.
  virtual void reserve_orthogonalization(std::span<const Stack> stacks,
                                         std::span<const PolarPlan> plans, Type arithmetic) = 0;

  /// direction <- F orthogonalised, by one plan for each stack, whose blocks are matrices; then
  /// the squared norms of the selected blocks, unless null: those whose mode is `preconditioned`,
  /// as the modes say too. `direction` holds F and, where *proceed is 0 and, unless the plans keep
  /// them, of blocks that are not selected, afterwards nothing of use. Only plans without steps
  /// wait for the backend.
  virtual void orthogonalize(const PassContext& context, std::span<const Stack> stacks,
                             std::span<const Selection> selected, std::span<const PolarPlan> plans,
                             void* direction, double* direction_norms) = 0;
};

}  // namespace shampoo::kernels
