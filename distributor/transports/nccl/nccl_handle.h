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

/// Serializes access to an NCCL communicator, which one thread at a time may use, and ends it.
class NcclHandle {
 public:
  using Clock = std::chrono::steady_clock;
  /// Shuts a borrowed communicator down. May be empty; then nothing does.
  using ShutDown = std::function<void(std::string_view reason)>;

  /// Takes ownership.
  NcclHandle(std::shared_ptr<NcclApi> api, NcclApi::Comm comm)
      : api_(std::move(api)), comm_(comm), is_owned_(true) {}
  /// Borrows.
  NcclHandle(std::shared_ptr<NcclApi> api, NcclApi::Comm comm, ShutDown shut_down)
      : api_(std::move(api)), comm_(comm), is_owned_(false), shut_down_(std::move(shut_down)) {}
  /// Finalizes an owned communicator; waits briefly for pending work of all ranks.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  NcclApi& api() const { return *api_; }
  bool is_owned() const { return is_owned_; }

  /// Calls use(comm) exclusively. Throws CommunicationError after shut_down().
  template <typename Use>
  auto with(const Use& use) {
    const std::lock_guard lock(mutex_);
    check();
    return use(comm_);
  }

  /// Throws asynchronous errors of NCCL. Does nothing while another thread uses the communicator.
  void check_async_error();
  /// Waits until NCCL is ready for the next call. Throws CommunicationError after `end`.
  void wait_until_ready(Clock::time_point end, std::string_view operation);

  /// Ends pending work, once. Waits only briefly for a thread inside NCCL, which may itself be
  /// waiting for that work.
  void shut_down(std::string_view reason) noexcept;
  bool is_shut_down() const { return is_shut_down_; }

 private:
  void check() const;

  std::shared_ptr<NcclApi> api_;
  std::mutex mutex_;
  NcclApi::Comm comm_;
  bool is_owned_;
  std::atomic<bool> is_shut_down_{false};
  ShutDown shut_down_;
};

/// Scope of collectives that are one launch.
class NcclGroup {
 public:
  explicit NcclGroup(NcclApi& api) : api_(api) { api_.begin_group(); }
  /// Ends the group if an exception is propagating.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  void end() {
    is_open_ = false;
    api_.end_group();
  }

 private:
  NcclApi& api_;
  bool is_open_ = true;
};

/// all_gather of `bytes` per rank, in place in host memory, through temporary device memory.
/// Collective; blocks. Throws CommunicationError after `end`.
void gather_through_device(NcclHandle& handle, NcclApi::Stream stream,
                           const NcclApi::Position& position, void* data, std::int64_t bytes,
                           NcclHandle::Clock::time_point end);

}  // namespace shampoo
