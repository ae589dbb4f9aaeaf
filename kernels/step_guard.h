// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/step_records.h"

namespace shampoo::kernels {

/// Decisions about a step in the backend's memory, where a replayed step needs no host.
class StepGuard {
 public:
  virtual ~StepGuard() = default;

  /// Ends the scan of a step, whose result is in `records`: counts the step, and resets
  /// `directions`. Skips it if its generation was the last one, too, if it is not permitted, or if
  /// `offers` lacks a bit that it needs; the last sets first_bad to needs_refresh. Otherwise
  /// updates the loss scale and the window of norms, and skips the step if its norm exceeds the
  /// limit. The step's gradients are to be multiplied by `gradients.scale`.
  virtual void admit(const StepPermit* permit, std::int32_t offers, const GradientRules& rules,
                     StepRecords* records) = 0;

  /// gathered <- all records, back to back; *proceed <- 0 unless they agree.
  virtual void compare(const RecordArray& records, void* gathered, std::int32_t* proceed) = 0;
};

}  // namespace shampoo::kernels
