// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>

#include "distributor/system/time_left.h"

namespace shampoo::launcher {

/// The milliseconds until `end` for poll(); -1, without end, for the largest time.
inline int poll_time(std::chrono::steady_clock::time_point end) {
  if (end == std::chrono::steady_clock::time_point::max()) return -1;
  return static_cast<int>(std::min<std::int64_t>(time_left(end).count(), INT_MAX));
}

}  // namespace shampoo::launcher
