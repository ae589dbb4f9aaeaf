// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/worker_logs.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <list>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "distributor/launcher/worker_setup.h"
#include "distributor/system/event.h"
#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"
#include "distributor/system/time_left.h"

namespace shampoo::launcher {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t most_bytes = std::size_t{64} << 10;

/// One stream of one worker.
struct TeeStream {
  UniqueFd pipe;     ///< the reading end
  UniqueFd file;     ///< gets all bytes as they are; may be empty
  int console = -1;  ///< gets whole lines with the prefix; borrowed; -1: none
  std::string prefix;
  std::string line = {};  ///< begun, not yet shown

  /// One call takes all that the pipe holds. False at the end.
  bool copy_some() {
    std::array<char, most_bytes> bytes;
    const ssize_t count = ::read(pipe.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    write_all(file.get(), text);
    show_lines(text);
    return true;
  }

  /// Shows the complete lines of `line` and `text`. One longer than most_bytes is cut.
  void show_lines(std::string_view text) {
    std::string shown;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      const std::size_t size = std::min(end, most_bytes - line.size());
      line += text.substr(0, size);
      text.remove_prefix(size);
      const bool complete = text.starts_with('\n');
      if (complete) text.remove_prefix(1);
      if (!complete && text.empty()) break;
      shown += prefix + line + '\n';
      line.clear();
    }
    write_all(console, shown);
  }

  /// Shows a last line that lacks its end.
  void end() {
    if (!line.empty()) write_all(console, prefix + line + '\n');
  }
};

UniqueFd open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot write " + path);
  return file;
}

std::string prefix_of(const LaunchOptions& options, const WorkerRanks& ranks) {
  const std::string local_rank = std::to_string(ranks.local_rank), host = host_name();
  if (!options.line_prefix) return "[" + options.role + local_rank + "]:";
  return fill_template(*options.line_prefix, {{"role_name", options.role},
                                              {"local_rank", local_rank},
                                              {"rank", std::to_string(ranks.rank)},
                                              {"hostname", host.substr(0, host.find('.'))}});
}

}  // namespace

void write_all(int descriptor, std::string_view bytes) {
  while (descriptor >= 0 && !bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {  // somebody who shares the console made it so
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

/// Copies the workers' streams from pipes to files and console as they come, on one thread that
/// blocks all signals. Writing waits: a console that takes no more stops the workers in time.
class WorkerLogs::Tee {
 public:
  /// From any thread, before finish().
  void add(TeeStream stream) {
    const std::scoped_lock lock(mutex_);
    new_streams_.push_back(std::move(stream));
    wake_.set();
  }

  /// Waits until all pipes are closed, which other processes may delay by `longest`, and all that
  /// was in them is written.
  void finish(milliseconds longest) {
    if (!thread_.joinable()) return;
    deadline_ = Clock::now() + longest;
    finishing_ = true;
    wake_.set();
    thread_.join();
  }

 private:
  using Clock = std::chrono::steady_clock;

  void run() {
    for (bool last = false; !last;) {
      wake_.clear();
      const bool finishing = finishing_;
      const auto left = finishing ? time_left(deadline_) : milliseconds(-1);
      last = left.count() == 0;
      {
        const std::scoped_lock lock(mutex_);
        streams_.splice(streams_.end(), new_streams_);
      }
      if (finishing && streams_.empty()) return;
      std::vector<pollfd> polled{{wake_.descriptor(), POLLIN, 0}};
      for (const TeeStream& stream : streams_) polled.push_back({stream.pipe.get(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), static_cast<int>(left.count()));
      auto source = polled.begin();
      std::erase_if(streams_, [&](TeeStream& stream) {
        if ((++source)->revents == 0 || stream.copy_some()) return false;
        stream.end();
        return true;
      });
    }
    for (TeeStream& stream : streams_) stream.end();
  }

  Event wake_;
  std::mutex mutex_;
  std::list<TeeStream> new_streams_;  ///< until the thread takes them; guarded by mutex_
  Clock::time_point deadline_ = Clock::time_point::max();
  std::atomic<bool> finishing_ = false;  ///< deadline_ is set
  std::list<TeeStream> streams_;         ///< the thread's own
  std::thread thread_ = thread_without_signals([this] { run(); });
};

WorkerLogs::WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
                       Console console)
    : options_(options), folder_(folder), attempt_(attempt), console_(console) {}

WorkerLogs::~WorkerLogs() { finish(milliseconds(0)); }

WorkerStreams WorkerLogs::open(const WorkerRanks& ranks) {
  const Streams teed = options_.tee.of(ranks.local_rank);
  const Streams redirected = options_.redirects.of(ranks.local_rank);
  return {open(ranks, teed.out, redirected.out, "stdout.log", console_.out),
          open(ranks, teed.error, redirected.error, "stderr.log", console_.error)};
}

UniqueFd WorkerLogs::open(const WorkerRanks& ranks, bool teed, bool redirected, const char* name,
                          int console) {
  const bool shown = options_.console_local_ranks.empty() ||
                     options_.console_local_ranks.contains(ranks.local_rank);
  std::string file;
  if (teed || redirected) {
    const auto own = folder_.worker(attempt_, ranks.local_rank);
    if (!own.empty()) file = own / name;
  }
  if (!teed) {
    if (!redirected && shown) return {};
    return open_file(file.empty() ? "/dev/null" : file);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd reading(ends[0]), writing(ends[1]);
  if (!tee_) tee_ = std::make_unique<Tee>();
  tee_->add({.pipe = std::move(reading),
             .file = file.empty() ? UniqueFd() : open_file(file),
             .console = shown ? console : -1,
             .prefix = prefix_of(options_, ranks)});
  return writing;
}

void WorkerLogs::finish(milliseconds longest) {
  if (tee_) tee_->finish(longest);
}

}  // namespace shampoo::launcher
