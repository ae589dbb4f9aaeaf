// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "kernels/buffer.h"
#include "shampoo/gradient_options.h"
#include "shampoo/state_dict.h"

namespace shampoo {

/// What GradientOptions do in a step. Their state is that of StepRecords, which the caller keeps,
/// and a window of norms.
class GradientPipeline {
 public:
  /// `state` [backend] has no values yet.
  GradientPipeline(kernels::Backend& backend, const GradientOptions& options,
                   kernels::GradientState* state);

  const kernels::GradientRules& rules() const { return rules_; }
  std::optional<double> max_parameter_norm() const { return max_parameter_norm_; }
  double value_limit() const { return value_limit_; }
  /// Gradients that are not finite skip the step, whatever NonFinite says.
  bool skips_overflows() const { return rules_.loss_scale.interval > 0; }

  // [backend]
  /// What the scan multiplies gradients by.
  const double* scan_scale() const { return &state_->now.inverse; }
  /// What the step multiplies them by, once it is admitted.
  const double* scale() const { return &state_->scale; }
  const float* loss_scale() const { return &state_->now.scale; }

  const double* zero() const { return static_cast<const double*>(numbers_.data()) + 1; }

  /// The gradients of the next step are no longer scaled. Queued.
  void set_unscaled();
  /// The state before the step that has left `seen`, and the window as it was then. Waits.
  kernels::GradientState taken_back(kernels::GradientState seen);

  /// Waits.
  void save(const kernels::GradientState& seen, Progress& progress) const;
  /// The state to go on with; without a saved one that of a new optimizer. Waits.
  kernels::GradientState load(const Progress& progress);
  std::int64_t bytes() const {
    return static_cast<std::int64_t>(norms_.bytes() + numbers_.bytes());
  }

 private:
  std::int64_t write_norms(const Progress& progress);

  kernels::Backend& backend_;
  kernels::GradientState* state_;
  kernels::LossScale initial_;
  std::optional<double> max_parameter_norm_;
  double value_limit_;
  kernels::Buffer norms_;    ///< the window
  kernels::Buffer numbers_;  ///< 1 and 0
  kernels::GradientRules rules_;
};

}  // namespace shampoo
