// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>
#include <thread>

namespace shampoo {

/// Pauses of a polling loop: none at first, then sched_yield(), then sleeps of 20 and 200 us.
class Backoff {
 public:
  /// True when the caller should also run its more expensive checks.
  bool pause() {
    ++polls_;
    if (polls_ < spins) return false;
    if (polls_ < yields) {
      sched_yield();
      return polls_ % 64 == 0;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(polls_ < 2 * yields ? 20 : 200));
    return true;
  }

 private:
  static constexpr int spins = 200, yields = 4000;
  long polls_ = 0;
};

}  // namespace shampoo
