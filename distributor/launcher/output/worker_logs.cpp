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

#include "distributor/launcher/output/console_stream.h"
#include "distributor/launcher/poll_time.h"
#include "distributor/launcher/worker_setup.h"
#include "distributor/system/event.h"
#include "distributor/system/host_name.h"
#include "distributor/system/thread_without_signals.h"

namespace shampoo::launcher {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::size_t most_bytes = std::size_t{64} << 10;

/// One stream of one worker.
struct TeeStream {
  UniqueFd pipe;                 ///< the reading end
  UniqueFd file;                 ///< gets all bytes as they are; may be empty
  const ConsoleStream* console;  ///< gets whole lines with the prefix; borrowed; null: none
  std::string prefix;
  std::string name, worker;  ///< "stdout", "local rank 0"
  std::string line = {};     ///< begun, not yet shown

  /// Takes the complete lines of `line` and `text`, prefixed. One longer than most_bytes is cut.
  std::string take_lines(std::string_view text) {
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
    return shown;
  }
};

/// Waits. Returns 0 or errno.
int write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(count));
    else if (errno != EINTR)
      return errno;
  }
  return 0;
}

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

/// Copies the workers' streams from pipes to files and console as they come, on one thread that
/// blocks all signals. Writing waits: a console that takes no more stops the workers in time.
class WorkerLogs::Tee {
 public:
  explicit Tee(Console console) : out_(console.out), error_(console.error) {}
  ~Tee() {
    leave_console(Clock::now());
    finish(milliseconds(0));
    thread_.join();
  }
  Tee(const Tee&) = delete;
  Tee& operator=(const Tee&) = delete;

  const ConsoleStream& out() const { return out_; }
  const ConsoleStream& error() const { return error_; }

  /// Before finish().
  void add(TeeStream stream) {
    const std::scoped_lock lock(mutex_);
    new_streams_.push_back(std::move(stream));
    wake_.set();
  }

  void finish(milliseconds longest) {
    if (finishing_) return;
    deadline_ = Clock::now() + longest;
    finishing_ = true;
    wake_.set();
  }
  bool finished() const { return finished_; }
  int descriptor() const { return ended_.descriptor(); }
  void leave_console(Clock::time_point end) { patience_.end_at(end); }

 private:
  void run() {
    copy_all();
    finished_ = true;
    ended_.set();
  }

  /// Until finish() and the end of all pipes, or the deadline.
  void copy_all() {
    for (bool last = false; !last;) {
      wake_.clear();
      const bool finishing = finishing_;
      const int left = finishing ? poll_time(deadline_) : -1;
      last = left == 0;
      {
        const std::scoped_lock lock(mutex_);
        streams_.splice(streams_.end(), new_streams_);
      }
      if (finishing && streams_.empty()) return;
      std::vector<pollfd> polled{{wake_.descriptor(), POLLIN, 0}};
      for (const TeeStream& stream : streams_) polled.push_back({stream.pipe.get(), POLLIN, 0});
      ::poll(polled.data(), polled.size(), left);
      auto source = polled.begin();
      std::erase_if(streams_, [&](TeeStream& stream) {
        if ((++source)->revents == 0 || copy_some(stream)) return false;
        end(stream);
        return true;
      });
    }
    for (TeeStream& stream : streams_) end(stream);
  }

  /// One call takes all that the pipe holds. False at the end.
  bool copy_some(TeeStream& stream) {
    std::array<char, most_bytes> bytes;
    const ssize_t count = ::read(stream.pipe.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return true;
    if (count <= 0) return false;
    const std::string_view text(bytes.data(), static_cast<std::size_t>(count));
    const int error = stream.file ? write_all(stream.file.get(), text) : 0;
    if (error != 0) {
      stream.file.reset();
      say_lost(stream.name + ".log of " + stream.worker, error);
    }
    show(stream, stream.take_lines(text));
    return true;
  }

  /// Shows a last line that lacks its end.
  void end(TeeStream& stream) {
    if (!stream.line.empty()) show(stream, stream.prefix + stream.line + '\n');
  }

  void show(TeeStream& stream, std::string_view text) {
    const int error = stream.console != nullptr ? write_in_time(*stream.console, text) : 0;
    if (error == 0) return;
    stream.console = nullptr;
    say_lost(stream.name + " of " + stream.worker + " on the console", error);
  }

  /// Returns 0 or errno; EAGAIN: the console took no more in time.
  int write_in_time(const ConsoleStream& console, std::string_view text) const {
    while (true) {
      const int error = console.write(text);
      if (error != 0 || text.empty()) return error;
      if (!patience_.wait_for_room(console)) return EAGAIN;
    }
  }

  void say_lost(const std::string& what, int error) const {
    const std::string why =
        error == EAGAIN ? "it takes no more" : std::generic_category().message(error);
    write_in_time(error_, "shampoorun: " + what + ": " + why + "; the rest is lost\n");
  }

  ConsoleStream out_, error_;
  ConsolePatience patience_;

  Event wake_;
  std::mutex mutex_;
  std::list<TeeStream> new_streams_;  ///< until the thread takes them; guarded by mutex_
  Clock::time_point deadline_ = Clock::time_point::max();
  std::atomic<bool> finishing_ = false;  ///< deadline_ is set
  std::atomic<bool> finished_ = false;
  Event ended_;
  std::list<TeeStream> streams_;  ///< the thread's own
  std::thread thread_ = thread_without_signals([this] { run(); });
};

WorkerLogs::WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
                       Console console)
    : options_(options), folder_(folder), attempt_(attempt), console_(console) {}

WorkerLogs::~WorkerLogs() = default;

WorkerStreams WorkerLogs::open(const WorkerRanks& ranks) {
  const Streams teed = options_.tee.of(ranks.local_rank);
  const Streams redirected = options_.redirects.of(ranks.local_rank);
  return {open(ranks, teed.out, redirected.out, "stdout"),
          open(ranks, teed.error, redirected.error, "stderr")};
}

UniqueFd WorkerLogs::open(const WorkerRanks& ranks, bool teed, bool redirected,
                          const std::string& name) {
  const bool shown = options_.console_local_ranks.empty() ||
                     options_.console_local_ranks.contains(ranks.local_rank);
  std::string file;
  if (teed || redirected) {
    const auto own = folder_.worker(attempt_, ranks.local_rank);
    if (!own.empty()) file = own / (name + ".log");
  }
  if (!teed) {
    if (!redirected && shown) return {};
    return open_file(file.empty() ? "/dev/null" : file);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd reading(ends[0]), writing(ends[1]);
  if (!tee_) tee_ = std::make_unique<Tee>(console_);
  const ConsoleStream& console = name == "stdout" ? tee_->out() : tee_->error();
  tee_->add({.pipe = std::move(reading),
             .file = file.empty() ? UniqueFd() : open_file(file),
             .console = shown ? &console : nullptr,
             .prefix = prefix_of(options_, ranks),
             .name = name,
             .worker = "local rank " + std::to_string(ranks.local_rank)});
  return writing;
}

void WorkerLogs::finish(milliseconds longest) {
  if (tee_) tee_->finish(longest);
}

bool WorkerLogs::finished() const { return !tee_ || tee_->finished(); }

int WorkerLogs::descriptor() const { return tee_ ? tee_->descriptor() : -1; }

void WorkerLogs::leave_console(Clock::time_point end) {
  if (tee_) tee_->leave_console(end);
}

}  // namespace shampoo::launcher
