// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string_view>
#include <utility>

namespace shampoo {

struct StepOutcome;

/// Outcome of one step.
///
/// On a device the step may still be running: reading its result waits for it and throws its errors
/// (NumericalError, CommunicationError), which step() throws itself on the CPU. With several ranks,
/// either all ranks read the result before the next prepare_step() or none does, because diagnosing
/// a disagreement is collective. Readable during the optimizer's lifetime; afterwards only if the
/// outcome was already known.
class StepResult {
 public:
  explicit StepResult(std::shared_ptr<StepOutcome> outcome) : outcome_(std::move(outcome)) {}

  /// Whether parameters and state changed.
  bool applied() const;
  /// Name of the first parameter with a non-finite gradient; empty: none. Valid as long as the
  /// optimizer.
  std::string_view non_finite_gradient() const;
  /// Euclidean norm of all gradients together.
  double gradient_norm() const;

 private:
  std::shared_ptr<StepOutcome> outcome_;
};

}  // namespace shampoo
