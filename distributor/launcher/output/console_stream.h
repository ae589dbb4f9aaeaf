// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <string_view>

#include "distributor/system/event.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// A console that may take no more for a while, which holds nobody up: writing does not wait, but
/// where the console cannot be opened again, as without /proc or as another user, and has less room
/// than it says. The descriptor keeps its flags, as other processes share them.
class ConsoleStream {
 public:
  /// `descriptor` is borrowed.
  explicit ConsoleStream(int descriptor);

  /// To poll for room (POLLOUT).
  int descriptor() const { return own_ ? own_.get() : borrowed_; }
  /// Removes from `bytes` what the console takes now. Returns 0, or errno where it takes no more
  /// ever.
  int write(std::string_view& bytes) const;

 private:
  int borrowed_;
  UniqueFd own_;  ///< the same pipe or terminal, opened so that writing does not wait
};

/// How long one thread waits for consoles: without end, until another thread sets one.
class ConsolePatience {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Ends a wait under way, too. Only shortens.
  void end_at(Time end);
  /// Waits until the console takes bytes. False: the time is over.
  bool wait_for_room(const ConsoleStream& console) const;

 private:
  std::atomic<Time> end_ = Time::max();
  Event shortened_;
};

}  // namespace shampoo::launcher
