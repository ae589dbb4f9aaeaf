// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>

namespace shampoo {

/// From now until `end`, rounded up, and not less than `least`.
inline std::chrono::milliseconds time_left(
    std::chrono::steady_clock::time_point end,
    std::chrono::milliseconds least = std::chrono::milliseconds(0)) {
  const auto left = end - std::chrono::steady_clock::now();
  return std::max(std::chrono::ceil<std::chrono::milliseconds>(left), least);
}

}  // namespace shampoo
