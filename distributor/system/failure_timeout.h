// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace shampoo {

/// How long a rank that has met a failure waits for a word from the others, before it calls those
/// missing who said none: a quarter of the deadline, from 1 to 10 s, and never more than the
/// deadline. A busy host may not let a healthy rank run for a second.
constexpr std::chrono::milliseconds grace_of(std::chrono::milliseconds deadline) {
  using std::chrono::milliseconds;
  return std::min(deadline, std::clamp(deadline / 4, milliseconds(1'000), milliseconds(10'000)));
}

}  // namespace shampoo
