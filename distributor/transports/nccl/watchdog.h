// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// One collective. Reused, so that its events are created once.
struct NcclOperation {
  enum class State : std::uint8_t {
    available,
    recording,  ///< its events are being recorded
    pending,    ///< enqueued and supervised
    captured,   ///< recorded into a CUDA graph; replays are not tracked
    done
  };
  State state = State::available;
  bool is_waited_for = false;  ///< wait() was called
  CollectiveCall call = {};
  NcclApi::Stream stream = nullptr;  ///< stream of the lease
  NcclApi::Event begin = nullptr;    ///< event on the stream of the lease
  /// Event on the stream of collectives.
  NcclApi::Event end = nullptr;
  std::shared_ptr<const void> keep_alive = {};                ///< see BufferLease
  std::optional<NcclHandle::Clock::time_point> reached = {};  ///< when the stream reached it
};

/// Supervises the pending collectives of a communicator on a thread: enforces their deadlines and
/// polls for errors of NCCL and aborts of other ranks.
class Watchdog {
 public:
  struct Callbacks {
    /// Called once, on the watchdog's thread.
    std::function<void(const CollectiveCall& call, const std::string& error)> on_failure;
    /// Returns the reason if another rank has aborted, otherwise an empty string. Called
    /// periodically while a collective is pending.
    std::function<std::string()> poll_remote_abort;
    /// Called once for a collective that is pending for longer than comparison_patience(), and
    /// with null when it is over. Returns how another rank's call differs, otherwise an empty
    /// string.
    std::function<std::string(const CollectiveCall* call)> compare_slow_call;
  };

  Watchdog(NcclHandle& handle, Callbacks callbacks, std::chrono::milliseconds deadline);
  ~Watchdog() { stop(); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  /// Waits until all collectives are done or have failed, then stops the thread. Returns false if
  /// some are still pending because they could not be aborted; their leases are leaked.
  bool stop();

  // For the thread that starts collectives.
  /// Returns an operation to record. Ends the leases of completed collectives, unless a stream is
  /// being captured.
  NcclOperation& acquire(const CollectiveCall& call, const BufferLease& lease, bool capturing);
  /// Supervises an operation whose events are recorded.
  void supervise(NcclOperation& operation, bool capturing);
  /// Returns null if the operation was waited for before.
  NcclOperation* find(std::uint64_t ticket);
  /// The stream of the lease waits for the operation.
  void mark_waited_for(NcclOperation& operation);

 private:
  using Clock = NcclHandle::Clock;
  using State = NcclOperation::State;

  void run() noexcept;
  void drain();
  /// Sleeps until the next check; returns false once the thread should end.
  bool sleep();
  /// Throws CommunicationError on a failure.
  void check(Clock::time_point& next_poll);
  /// Updates states; returns an overdue operation or null.
  const NcclOperation* update();
  const NcclOperation* oldest_pending() const;
  static void release(NcclOperation& operation);
  std::chrono::milliseconds interval() const;

  NcclHandle& handle_;
  const Callbacks callbacks_;
  std::atomic<std::chrono::milliseconds> deadline_;
  std::mutex mutex_;  ///< guards the members up to has_leaked_
  std::condition_variable changed_;
  std::vector<std::unique_ptr<NcclOperation>> operations_;
  bool has_replays_ = false, is_stopping_ = false;
  bool has_leaked_ = false;
  /// The collective that on_failure() names; used by the watchdog's thread only.
  CollectiveCall named_{.operation = "replay"};
  std::uint64_t compared_ = 0;  ///< ticket passed to compare_slow_call(); 0: none
  std::thread thread_;
};

}  // namespace shampoo
