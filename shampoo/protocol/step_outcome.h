// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <memory>
#include <string_view>
#include <vector>

namespace shampoo {

class StepProtocol;

/// What became of a step: what StepResult reads.
struct StepOutcome {
  StepProtocol* protocol = nullptr;  ///< who knows or will know; null when it is gone
  bool known = false;
  bool applied = false;
  std::string_view non_finite_gradient = {};
  double gradient_norm = 0;
  std::exception_ptr error = nullptr;  ///< thrown to whoever reads it

  /// This, when it is known. Waits; throws `error`.
  const StepOutcome& read();
};

/// Outcomes that are used again when nobody looks at them any more, so that steps need no memory.
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
