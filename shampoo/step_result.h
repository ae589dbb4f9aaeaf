// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace shampoo {

struct StepOutcome;

/// The arithmetic failed: a decomposition that kept failing, gradients that stayed non-finite.
class NumericalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Outcome of one step.
///
/// On a device the step may still be running: reading its result waits for it and throws its errors
/// (NumericalError, CommunicationError), which step() throws itself on the CPU. With several ranks,
/// either all ranks read the result before the next prepare_step() or none does, because diagnosing
/// a disagreement is collective. Readable during the optimizer's lifetime; afterwards only if the
/// outcome was already known.
class StepResult {
 public:
  /// True if parameters and state changed.
  bool applied() const;
  /// Name of the first parameter with a non-finite gradient; empty: none. Valid as long as the
  /// optimizer.
  std::string_view non_finite_gradient() const;
  /// Name of the first parameter with a block whose direction was not finite, on any rank; empty:
  /// none. Such a block keeps its values and averages, and its statistics take the gradient in; all
  /// else takes the step. Valid as long as the optimizer.
  std::string_view non_finite_direction() const;
  /// Number of parameters with elements that had no gradient.
  std::int64_t absent_gradients() const;
  /// Euclidean norm of all gradients together, without the loss scale and before any clipping; NaN
  /// where one is not finite.
  double gradient_norm() const;
  /// What ClipGlobalNorm multiplied all gradients by; 1: nothing.
  double clip_factor() const;
  /// The loss scale of the step's gradients; 1 without LossScaling.
  double loss_scale() const;
  /// True if SpikeGuard skipped the step.
  bool spike() const;

 private:
  friend class StepProtocol;
  explicit StepResult(std::shared_ptr<StepOutcome> outcome) : outcome_(std::move(outcome)) {}

  std::shared_ptr<StepOutcome> outcome_;
};

/// Counters of this rank since construction.
struct Statistics {
  std::int64_t applied_steps = 0;
  /// Steps skipped because of a non-finite gradient, including the next counter, or a spike.
  std::int64_t skipped_steps = 0;
  std::int64_t overflows = 0;      ///< skipped steps after which the loss scale was reduced
  std::int64_t spikes = 0;         ///< steps that SpikeGuard skipped
  std::int64_t clipped_steps = 0;  ///< steps whose StepResult::clip_factor() is less than 1
  /// Steps that blocks of this rank did not take; see StepResult::non_finite_direction().
  std::int64_t non_finite_directions = 0;
  std::int64_t refreshes = 0;  ///< number of roots computed, including the next four counters
  /// Roots computed by an eigendecomposition, after an iteration diverged or a factor was not
  /// definite.
  std::int64_t by_eigenvalues = 0;
  std::int64_t jittered = 0;    ///< roots computed with a jittered diagonal
  std::int64_t in_float64 = 0;  ///< roots computed in float64, after a failure in float32
  std::int64_t by_jacobi = 0;   ///< roots computed by Jacobi rotations, after a failure in float64
  std::int64_t kept_roots = 0;  ///< failed roots; the old ones are still in use
  /// Raised by a shift or a relative floor; under Minimax and Tridiagonal, factors whose relative
  /// damping exceeded epsilon.
  std::int64_t raised_eigenvalues = 0;
};

}  // namespace shampoo
