// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "distributor/launcher/event.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// Waits for room. What cannot be written at all, as a disk is full or a console gone, is dropped.
void write_all(int descriptor, std::string_view bytes);

/// One stream of one worker.
struct TeeStream {
  UniqueFd pipe;     ///< the reading end
  UniqueFd file;     ///< gets all bytes as they are; may be empty
  int console = -1;  ///< gets whole lines with the prefix; borrowed; -1: none
  std::string prefix;
  std::string line = {};  ///< begun, not yet shown
};

/// Copies the workers' streams from pipes to files and console as they come, on one thread that
/// blocks all signals. Writing waits: a console that takes no more stops the workers in time.
class Tee {
 public:
  Tee();
  /// As finish(), without waiting for processes that still hold a pipe.
  ~Tee();
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  /// From any thread, before finish().
  void add(TeeStream stream);
  /// Waits until all pipes are closed, which other processes may delay by `longest`, and all that
  /// was in them is written.
  void finish(std::chrono::milliseconds longest);

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  bool read_some(TeeStream& stream);
  void end(TeeStream& stream);
  int milliseconds_left() const;

  Event wake_;
  std::mutex mutex_;
  std::list<TeeStream> new_streams_;  ///< until the thread takes them; guarded by mutex_
  Clock::time_point deadline_ = Clock::time_point::max();
  std::atomic<bool> finishing_ = false;  ///< deadline_ is set
  std::list<TeeStream> streams_;         ///< the thread's own
  std::thread thread_;
};

}  // namespace shampoo::launcher
