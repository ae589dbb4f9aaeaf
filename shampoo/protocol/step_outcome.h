// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <vector>

namespace shampoo {

class StepProtocol;

/// Outcome of a step, read through StepResult.
struct StepOutcome {
  StepProtocol* protocol = nullptr;  ///< null after its destruction
  bool known = false;
  bool applied = false;
  std::string_view non_finite_gradient = {};
  std::string_view non_finite_direction = {};
  std::int64_t absent_gradients = 0;
  double gradient_norm = 0;
  double clip_factor = 1, loss_scale = 1;
  bool spike = false;
  std::exception_ptr error = nullptr;  ///< thrown by read()

  /// Waits until the outcome is known and returns it. Throws `error`, or std::logic_error if the
  /// optimizer was destroyed before.
  const StepOutcome& read();
};

/// Pool of outcomes, recycled once their last StepResult is destroyed, so that step() does not
/// allocate.
class StepOutcomes {
 public:
  StepOutcomes();
  ~StepOutcomes();
  StepOutcomes(const StepOutcomes&) = delete;
  StepOutcomes& operator=(const StepOutcomes&) = delete;

  std::shared_ptr<StepOutcome> begin(StepProtocol& protocol);

 private:
  std::vector<std::shared_ptr<StepOutcome>> all_;
};

}  // namespace shampoo
