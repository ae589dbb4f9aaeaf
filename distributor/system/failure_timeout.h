// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace shampoo {

/// Time for which a rank waits for the other ranks to respond after a failure, before it reports
/// the silent ones as missing: min(deadline, clamp(deadline / 4, 1 s, 10 s)). A busy host may not
/// schedule a healthy rank for a second.
constexpr std::chrono::milliseconds failure_detection_timeout(std::chrono::milliseconds deadline) {
  using std::chrono::milliseconds;
  return std::min(deadline, std::clamp(deadline / 4, milliseconds(1'000), milliseconds(10'000)));
}

}  // namespace shampoo
