// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

void StepProtocol::count_skipped(std::string_view name) {
  ++statistics_.skipped_steps;
  ++skipped_in_a_row_;
  const auto what = [&] {
    return "parameter '" + std::string(name) + "': its gradient is not finite; ";
  };
  if (options_.non_finite == NonFinite::error)
    throw NumericalError(what() + "the step was skipped and nothing changed");
  if (skipped_in_a_row_ >= options_.skipped_in_a_row)
    throw NumericalError(what() + std::to_string(skipped_in_a_row_) +
                         " steps in a row were skipped; nothing changed in them");
}

}  // namespace shampoo
