// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributor/launcher/console_end.h"
#include "distributor/launcher/event.h"
#include "distributor/launcher/line_buffer.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

/// Lines with one of these words go to one more file.
struct LineFilter {
  std::vector<std::string> words;
  UniqueFd file;

  bool takes(std::string_view line) const;
};

/// One stream of one worker.
struct TeeStream {
  UniqueFd pipe;     ///< the reading end, not blocking
  UniqueFd file;     ///< gets all bytes as they are; may be empty
  int console = -1;  ///< gets whole lines behind the prefix; borrowed; -1: none
  std::string prefix;
  const LineFilter* filter = nullptr;  ///< borrowed; may be null
  LineBuffer lines{};
};

/// Carries streams from pipes to files and consoles, on one thread that blocks all signals. Slow
/// readers of the console slow the workers down, not memory up.
class Tee {
 public:
  Tee();
  ~Tee();
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  /// From any thread, before close().
  void add(TeeStream stream);

  /// See WorkerLogs, for all of these.
  void close(std::chrono::milliseconds patience);
  void hurry(std::chrono::milliseconds patience);
  bool done() const { return done_; }
  int ended() const { return ended_.descriptor(); }
  std::size_t dropped_bytes() const { return dropped_; }
  void finish(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  /// A time that comes nearer, never goes away, and can be polled for.
  class Limit {
   public:
    void set(std::chrono::milliseconds from_now);
    bool is_set() const { return at_ != never; }
    /// -1: no limit.
    int milliseconds_left() const;
    bool over() const { return milliseconds_left() == 0; }
    int descriptor() const { return news_.descriptor(); }

   private:
    static constexpr std::int64_t never = INT64_MAX;
    std::atomic<std::int64_t> at_{never};
    Event news_;  ///< set for good with the time
  };

  void run();
  void take_new_streams();
  bool wait_for_input(std::vector<bool>& ready);
  bool read_some(TeeStream& stream);
  void write_line(TeeStream& stream, std::string_view line, std::string& console);
  void end(TeeStream& stream);
  void write_file(const UniqueFd& file, std::string_view bytes);
  void write_console(int console, std::string_view text);
  bool takes_more(const ConsoleEnd& console) const;

  Event new_, ended_;
  Limit streams_limit_, console_limit_;
  std::atomic<bool> done_ = false;
  std::atomic<std::size_t> dropped_ = 0;
  std::mutex mutex_;
  std::vector<TeeStream> new_streams_;
  std::list<TeeStream> streams_;  ///< the thread's own, as the next
  std::map<int, ConsoleEnd> consoles_;
  std::thread thread_;
};

}  // namespace shampoo::launcher
