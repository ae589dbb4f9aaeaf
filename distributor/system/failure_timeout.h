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

/// The longest wait after which there is still time to look for silent ranks within `deadline`:
/// largest t with t + failure_detection_timeout(t) <= deadline.
constexpr std::chrono::milliseconds before_failure_detection(std::chrono::milliseconds deadline) {
  using std::chrono::milliseconds;
  return std::max({deadline / 2, std::min(deadline * 4 / 5, deadline - milliseconds(1'000)),
                   deadline - milliseconds(10'000)});
}

/// Time after which a rank that waits in a collective compares its call with those of the others,
/// and for which it then waits for the store.
constexpr std::chrono::milliseconds comparison_patience(std::chrono::milliseconds deadline) {
  return std::min(deadline / 4, std::chrono::milliseconds(1'000));
}

}  // namespace shampoo
