// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

void StepProtocol::count_skipped(std::string_view name) {
  const kernels::GradientState& gradients = report_.seen_gradients();
  const bool overflow = gradients.now.scale < gradients.before.scale,
             spike = gradients.outlier != 0;
  ++statistics_.skipped_steps;
  statistics_.overflows += overflow;
  statistics_.spikes += spike;
  if (overflow) return;
  ++skipped_in_a_row_;
  const auto what = [&] {
    return spike ? std::string("gradients.spike_guard: the norm of the gradients is unusual; ")
                 : "parameter '" + std::string(name) + "': its gradient is not finite; ";
  };
  if (options_.non_finite == NonFinite::error && !spike)
    throw NumericalError(what() + "the step was skipped and nothing changed");
  if (skipped_in_a_row_ >= options_.skipped_in_a_row)
    throw NumericalError(what() + std::to_string(skipped_in_a_row_) +
                         " steps in a row were skipped; nothing changed in them");
}

}  // namespace shampoo
