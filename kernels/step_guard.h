// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/step_records.h"

namespace shampoo::kernels {

/// Decisions about a step in the backend's memory, where a replayed step needs no host.
class StepGuard {
 public:
  virtual ~StepGuard() = default;

  /// Counts the step in *counter, and resets `directions`. Skips it if its generation was the last
  /// one, too, if it is not permitted, or if `offers` lacks a bit that it needs; the last sets
  /// first_bad to needs_refresh.
  virtual void admit(const StepPermit* permit, std::int32_t offers, ReplayCounter* counter,
                     ScanResult* result, NonFiniteDirections* directions) = 0;

  /// gathered <- all records, back to back; *proceed <- 0 unless they agree.
  virtual void compare(const RecordArray& records, void* gathered, std::int32_t* proceed) = 0;
};

}  // namespace shampoo::kernels
