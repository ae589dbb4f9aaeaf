// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributor/launcher/descriptor.h"
#include "distributor/launcher/line_buffer.h"

namespace shampoo::launcher {

/// Lines with one of these words go to one more file.
struct LineFilter {
  std::vector<std::string> words;
  Descriptor file;

  bool takes(std::string_view line) const;
};

/// One stream of one worker.
struct TeeStream {
  Descriptor pipe;   ///< the reading end, not blocking
  Descriptor file;   ///< gets all bytes as they are; may be empty
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

  /// From any thread, before finish().
  void add(TeeStream stream);

  /// Waits until all streams ended, at most so long; writes last lines without an end.
  void finish(std::chrono::milliseconds patience);

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void take_new_streams();
  bool wait_for_input(std::vector<bool>& ready);
  bool read_some(TeeStream& stream);
  void write_line(TeeStream& stream, std::string_view line, std::string& console);
  void end(TeeStream& stream);
  void write_file(const Descriptor& file, std::string_view bytes);
  void write_console(int console, std::string_view text);
  bool console_takes_more(int console);
  int milliseconds_left() const;
  bool stopping() const { return stop_at_.load() != 0; }

  Descriptor news_,
      stop_;  ///< become readable when there are new streams, and for good by finish()
  std::mutex mutex_;
  std::vector<TeeStream> new_streams_;
  std::atomic<std::int64_t> stop_at_{0};  ///< of the clock; 0: not yet
  std::list<TeeStream> streams_;          ///< the thread's own, as all below
  std::set<int> dead_consoles_;
  std::thread thread_;
};

}  // namespace shampoo::launcher
