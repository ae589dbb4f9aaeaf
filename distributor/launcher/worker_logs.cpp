// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "distributor/launcher/tee.h"
#include "distributor/launcher/template_text.h"
#include "distributor/system/host_name.h"

namespace shampoo::launcher {
namespace {

UniqueFd open_file(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!file) throw std::system_error(errno, std::generic_category(), "cannot write " + path);
  return file;
}

std::string short_host_name() {
  const std::string whole = host_name();
  return whole.substr(0, whole.find('.'));
}

std::string prefix_of(const LaunchOptions& options, const WorkerRanks& ranks) {
  const std::string local_rank = std::to_string(ranks.local_rank);
  if (!options.line_prefix) return "[" + options.role + local_rank + "]:";
  return fill_template(*options.line_prefix, {{"role_name", options.role},
                                              {"local_rank", local_rank},
                                              {"rank", std::to_string(ranks.rank)},
                                              {"hostname", short_host_name()}});
}

}  // namespace

/// Which stream of a worker; where it may go.
struct WorkerLogs::Stream {
  bool teed, redirected;
  const char* file;
  int console;
  const LineFilter* filter;
};

struct WorkerLogs::Filters {
  LineFilter out, error;
};

WorkerLogs::WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
                       Console console)
    : options_(options),
      folder_(folder),
      attempt_(attempt),
      console_(console),
      filters_(std::make_unique<Filters>()) {
  const auto open_filter = [this](LineFilter& filter, const std::vector<std::string>& words,
                                  const char* file) {
    filter.words = words;
    const auto own = folder_.attempt(attempt_);
    if (!words.empty() && !own.empty()) filter.file = open_file(own / file);
  };
  open_filter(filters_->out, options.duplicate_out, "filtered_stdout.log");
  open_filter(filters_->error, options.duplicate_error, "filtered_stderr.log");
}

WorkerLogs::~WorkerLogs() { finish(std::chrono::milliseconds(0)); }

WorkerStreams WorkerLogs::open(const WorkerRanks& ranks) {
  const Streams teed = options_.tee.of(ranks.local_rank);
  const Streams redirected = options_.redirects.of(ranks.local_rank);
  return {
      open(ranks, {teed.out, redirected.out, "stdout.log", console_.out, &filters_->out}),
      open(ranks, {teed.error, redirected.error, "stderr.log", console_.error, &filters_->error})};
}

UniqueFd WorkerLogs::open(const WorkerRanks& ranks, const Stream& stream) {
  const bool shown = options_.console_local_ranks.empty() ||
                     options_.console_local_ranks.contains(ranks.local_rank);
  std::string file;
  if (stream.teed || stream.redirected) {
    const auto own = folder_.worker(attempt_, ranks.local_rank);
    if (!own.empty()) file = own / stream.file;
  }
  if (stream.teed) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "pipe");
    }
    UniqueFd reading(ends[0]), writing(ends[1]);
    ::fcntl(reading.get(), F_SETFL, O_NONBLOCK);
    if (!tee_) tee_ = std::make_unique<Tee>();
    tee_->add({.pipe = std::move(reading),
               .file = file.empty() ? UniqueFd() : open_file(file),
               .console = shown ? stream.console : -1,
               .prefix = prefix_of(options_, ranks),
               .filter = stream.filter});
    return writing;
  }
  if (stream.redirected) return open_file(file.empty() ? "/dev/null" : file);
  return shown ? UniqueFd() : open_file("/dev/null");
}

void WorkerLogs::close(std::chrono::milliseconds patience) {
  if (tee_) tee_->close(patience);
}

void WorkerLogs::hurry(std::chrono::milliseconds patience) {
  if (tee_) tee_->hurry(patience);
}

bool WorkerLogs::done() const { return !tee_ || tee_->done(); }

int WorkerLogs::ended() const { return tee_ ? tee_->ended() : -1; }

std::size_t WorkerLogs::dropped_bytes() const { return tee_ ? tee_->dropped_bytes() : 0; }

void WorkerLogs::finish(std::chrono::milliseconds patience) {
  if (tee_) tee_->finish(patience);
}

}  // namespace shampoo::launcher
