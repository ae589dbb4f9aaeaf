// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"

namespace shampoo {

/// Watches the blocking collectives of a communicator from a thread of its own. Ends one that
/// misses its deadline, and one in which this rank waits for min(1 s, deadline / 4) while another
/// rank waits in a different call, or has failed: connections to a peer that has gone do not always
/// say so. Sends nothing for faster collectives.
class CollectiveMonitor {
 public:
  /// `interrupt` makes the pending collective fail; called on the monitor's thread.
  CollectiveMonitor(FailureRegistry registry, std::function<void()> interrupt);
  ~CollectiveMonitor();
  CollectiveMonitor(const CollectiveMonitor&) = delete;
  CollectiveMonitor& operator=(const CollectiveMonitor&) = delete;

  void begin(const CollectiveCall& call, std::chrono::milliseconds deadline);
  void end();
  /// Why interrupt() was called; empty if it was not.
  std::string reason();

 private:
  using Clock = std::chrono::steady_clock;

  void run() noexcept;
  /// Returns when the collective is over or was interrupted.
  void watch(std::unique_lock<std::mutex>& lock);
  void await_end(std::unique_lock<std::mutex>& lock, std::uint64_t ticket);
  void interrupt(const std::string& reason);

  FailureRegistry registry_;
  const std::function<void()> interrupt_;
  std::mutex mutex_;  ///< guards the members up to reason_
  std::condition_variable changed_;
  CollectiveCall call_;  ///< ticket 0: none
  Clock::time_point start_;
  std::chrono::milliseconds deadline_{};
  bool sleeps_ = false;  ///< the thread waits to be notified
  bool is_stopping_ = false;
  std::string reason_;
  std::thread thread_;
};

}  // namespace shampoo
