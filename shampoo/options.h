// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace shampoo {

/// Response of a step to a gradient that is not finite.
enum class NonFinite : std::uint8_t {
  skip,   ///< the step is skipped, as by torch.amp's GradScaler; see skipped_in_a_row
  error,  ///< nothing changes; NumericalError
  ignore  ///< the step is taken
};

struct OptimizerOptions {
  NonFinite non_finite = NonFinite::skip;
  int skipped_in_a_row = 20;  ///< consecutive skipped steps after which step() throws; >= 1
  bool merge_groups = true;   ///< off: one virtual group per group; results are the same bits
  /// Adds one small collective before a step writes: an error on any rank then changes nothing on
  /// any rank. For gradients that may differ between ranks, as when they are sharded.
  bool agree_before_commit = false;
};

}  // namespace shampoo
