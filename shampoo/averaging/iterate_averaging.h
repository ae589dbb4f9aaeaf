// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/averaging/averaging.h"

/// Shared by the kinds that average an iterate Z: Z takes the steps, X is its average, and
/// gradients are taken at W = mu_y X + (1 - mu_y) Z, the parameter's value. X is not stored:
///
///     Z <- (1 - learning_rate alpha) Z                decoupled decay
///     W <- W - (1 - mu_x mu_y) learning_rate P + (1 - mu_x) (Z - W)
///     Z <- Z - learning_rate P
///
/// which is X <- mu_x X + (1 - mu_x) Z with the new Z [Defazio 2025b].
namespace shampoo {

class IterateAveraging : public GroupAveraging {
 public:
  explicit IterateAveraging(const GroupState& state);

  void set_coefficients(const AveragingStep& step, kernels::Coefficients& coefficients) const final;
  void apply(ChunkContext& chunk) final;
  void* iterate() const final { return iterate_; }

 private:
  /// 1 - mu_x
  virtual double new_weight(const AveragingStep& step) const = 0;

  void* iterate_;  ///< [backend] Z
};

/// "iterate": Z.
std::vector<Slot> iterate_slots(const Recipe& recipe);

/// 1 - 1 / mu_y: the evaluation point is X = W + (1 - 1 / mu_y) (Z - W).
double iterate_extrapolation(const Rates& rates);

}  // namespace shampoo
