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

#include "distributor/transports/nccl/nccl_handle.h"

namespace shampoo {

/// One collective. Used again, so that its events are made once.
struct NcclOperation {
  enum class State : std::uint8_t {
    free,
    taken,     ///< its events are being recorded
    running,   ///< on its way: watched
    captured,  ///< runs in replays of a graph, which nobody sees
    done
  };
  State state = State::free;
  bool is_waited_for = false;  ///< nobody will ask for it again
  std::uint64_t ticket = 0;
  std::string_view name = {};
  NcclCalls::Stream stream = nullptr;                       ///< of the loan
  NcclCalls::Event begin = nullptr, end = nullptr;          ///< on it, and on that of exchanges
  std::shared_ptr<const void> owner = {};                   ///< of its buffers
  std::optional<NcclHandle::Clock::time_point> begun = {};  ///< since when the stream is there
};

/// The collectives of one communicator that have not yet completed, and a thread that looks after
/// them: those of the calling thread do not wait.
class NcclWatch {
 public:
  struct Duties {
    /// Called on the watching thread with what has gone wrong, once.
    std::function<void(std::uint64_t ticket, std::string_view name, const std::string& fault)> lose;
    /// What other ranks have posted, empty for nothing; asked now and then while one is pending.
    std::function<std::string()> hear;
  };

  NcclWatch(NcclHandle& handle, Duties duties, std::chrono::milliseconds deadline);
  ~NcclWatch() { end(); }
  NcclWatch(const NcclWatch&) = delete;
  NcclWatch& operator=(const NcclWatch&) = delete;

  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

  /// Waits until all are done, at most the deadline, while those that are late are lost; then ends
  /// the watching. False: some are not, as nobody could end them; they keep their owners for ever.
  bool end();

  // For the calling thread.
  /// A free one, taken. Gives back the loans of those that are done, unless a stream is captured.
  NcclOperation& take(std::uint64_t ticket, std::string_view name, const BufferLease& loan,
                      bool capturing);
  /// Its events were recorded.
  void started(NcclOperation& operation, bool capturing);
  /// Null where it was waited for.
  NcclOperation* find(std::uint64_t ticket);
  /// Its stream waits for it.
  void waited_for(NcclOperation& operation);

 private:
  using Clock = NcclHandle::Clock;
  using State = NcclOperation::State;

  void run() noexcept;
  void drain();
  /// Until it is time to look again. False: nobody is to look any more.
  bool pause();
  /// Throws what has gone wrong.
  void look(Clock::time_point& next_hearing);
  /// Notes what is done. The first one that should be but is not; null where there is none.
  const NcclOperation* refresh();
  const NcclOperation* first_running() const;
  void release(NcclOperation& operation);
  std::chrono::milliseconds interval() const;

  NcclHandle& handle_;
  const Duties duties_;
  std::atomic<std::chrono::milliseconds> deadline_;
  std::mutex mutex_;  ///< of all below
  std::condition_variable changed_;
  std::vector<std::unique_ptr<NcclOperation>> operations_;
  bool has_replays_ = false, over_ = false;
  bool is_free_ = true;  ///< what end() found
  /// Whom lose() is about; of the watching thread.
  std::uint64_t ticket_ = 0;
  std::string_view name_ = "replay";
  std::thread thread_;
};

}  // namespace shampoo
