// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "kernels/facets.h"
#include "shampoo/rates.h"
#include "shampoo/step_result.h"

namespace shampoo {

class StepClock;

/// Which due blocks a queued step refreshes.
enum class Refreshing : std::uint8_t {
  none,
  due,    ///< blocks due in the prepared step
  usual,  ///< recorded: those of the step that is prepared when it runs, but no more than usual
  all     ///< the same, however many they are
};

/// One block in the step that is being prepared, on the host.
struct BlockStep {
  std::int64_t step = 0;         ///< step of its parameter, counted from 1
  const Rates* rates = nullptr;  ///< rates of its group
  bool due = false;              ///< true if its derived slots are recomputed
};

/// What one step on one virtual group works on. Elementwise kinds do not launch kernels of their
/// own: they join one of the two passes over all elements, which the step launches when it is
/// complete.
struct StepContext {
  kernels::PassContext pass;
  std::span<const kernels::Selection> present;         ///< per stack
  std::span<const kernels::Selection> preconditioned;  ///< per stack
  Refreshing refreshing;
  Statistics& statistics;
  StepClock& clock;
  double* grafting_norms;   ///< [backend] per block: |graft(F)|^2
  double* direction_norms;  ///< [backend] per block: |P|^2; null where P is not stored

  kernels::GradientPass gradients;  ///< G in, F or P out
  kernels::UpdatePass update;       ///< P in, the rank's segment out
};

}  // namespace shampoo
