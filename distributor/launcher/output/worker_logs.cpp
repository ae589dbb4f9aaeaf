// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/worker_logs.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "distributor/launcher/template_text.h"
#include "distributor/system/host_name.h"

namespace shampoo::launcher {
namespace {

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

WorkerLogs::WorkerLogs(const LaunchOptions& options, const LogFolder& folder, int attempt,
                       Console console)
    : options_(options), folder_(folder), attempt_(attempt), console_(console) {}

WorkerStreams WorkerLogs::open(const WorkerRanks& ranks) {
  const Streams teed = options_.tee.of(ranks.local_rank);
  const Streams redirected = options_.redirects.of(ranks.local_rank);
  return {open(ranks, {teed.out, redirected.out, "stdout.log", console_.out}),
          open(ranks, {teed.error, redirected.error, "stderr.log", console_.error})};
}

UniqueFd WorkerLogs::open(const WorkerRanks& ranks, const Target& target) {
  const bool shown = options_.console_local_ranks.empty() ||
                     options_.console_local_ranks.contains(ranks.local_rank);
  std::string file;
  if (target.teed || target.redirected) {
    const auto own = folder_.worker(attempt_, ranks.local_rank);
    if (!own.empty()) file = own / target.file;
  }
  if (!target.teed) {
    if (!target.redirected && shown) return {};
    return open_file(file.empty() ? "/dev/null" : file);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipe");
  UniqueFd reading(ends[0]), writing(ends[1]);
  if (!tee_) tee_ = std::make_unique<Tee>();
  tee_->add({.pipe = std::move(reading),
             .file = file.empty() ? UniqueFd() : open_file(file),
             .console = shown ? target.console : -1,
             .prefix = prefix_of(options_, ranks)});
  return writing;
}

void WorkerLogs::finish(std::chrono::milliseconds longest) {
  if (tee_) tee_->finish(longest);
}

}  // namespace shampoo::launcher
