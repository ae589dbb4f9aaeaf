// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "distributor/transports/nccl/nccl_api.h"

namespace shampoo {

/// A communicator of NCCL's, for several threads: NCCL wants one of them at a time, and none when
/// the communicator is shut down.
class NcclHandle {
 public:
  using Clock = std::chrono::steady_clock;
  /// Shuts a borrowed communicator down; may be empty, and then nobody does.
  using ShutDown = std::function<void(std::string_view reason)>;

  /// Takes an own one over.
  NcclHandle(std::shared_ptr<NcclCalls> calls, NcclCalls::Comm comm)
      : calls_(std::move(calls)), comm_(comm), owned_(true) {}
  /// Borrows one.
  NcclHandle(std::shared_ptr<NcclCalls> calls, NcclCalls::Comm comm, ShutDown shut_down)
      : calls_(std::move(calls)), comm_(comm), owned_(false), shut_down_(std::move(shut_down)) {}
  /// Waits for an own one, a short while, until what is pending on all ranks is done.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  NcclCalls& calls() const { return *calls_; }
  bool is_owned() const { return owned_; }

  /// use(comm), alone. Throws CommunicationError after shut_down().
  template <typename Use>
  auto with(const Use& use) {
    const std::lock_guard lock(mutex_);
    check();
    return use(comm_);
  }

  /// As with() on a call that ends at once: does nothing where another thread is inside.
  /// Throws what has gone wrong.
  void look();
  /// Waits until NCCL has taken on what was asked of it.
  /// Throws CommunicationError where it does not before `end`.
  void settle(Clock::time_point end, std::string_view what);

  /// Ends what is pending, once. A thread that does not come out of NCCL is waited for only
  /// briefly: it may be waiting for what this ends.
  void shut_down(std::string_view reason) noexcept;
  bool is_shut_down() const { return over_; }

 private:
  void check() const;

  std::shared_ptr<NcclCalls> calls_;
  std::mutex mutex_;
  NcclCalls::Comm comm_;  ///< null when it is shut down
  bool owned_;
  std::atomic<bool> over_{false};
  ShutDown shut_down_;
};

}  // namespace shampoo
