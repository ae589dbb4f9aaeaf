// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace shampoo {

/// How to poll for something that is mostly near and sometimes far: at once, then yielding the
/// processor, then asleep between two looks.
class Patience {
 public:
  /// Whether it is time for a more expensive look too.
  bool pause() {
    ++looks_;
    if (looks_ < spins) return false;
    if (looks_ < yields) {
      sched_yield();
      return looks_ % 64 == 0;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(looks_ < 2 * yields ? 20 : 200));
    return true;
  }

 private:
  static constexpr int spins = 200, yields = 4000;
  long looks_ = 0;
};

}  // namespace shampoo
