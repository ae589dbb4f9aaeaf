// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_group.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "distributor/system/host_name.h"

namespace shampoo::launcher {

namespace {

constexpr std::chrono::milliseconds between_kills{20};
constexpr std::chrono::seconds longest_death{10};  // of a process in a system call

/// As long as this holds, the group's number is not used again.
bool has_child(pid_t group) {
  siginfo_t info{};
  return waitid(P_PGID, static_cast<id_t>(group), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

WorkerGroup::WorkerGroup(const LaunchOptions& options, const LogFolder& folder, int attempt,
                         std::vector<WorkerRanks> ranks)
    : options_(options),
      folder_(folder),
      attempt_(attempt),
      ranks_(std::move(ranks)),
      logs_(options, folder, attempt) {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::system_error(errno, std::generic_category(), "prctl(PR_SET_CHILD_SUBREAPER)");
}

void WorkerGroup::start(const Environment& inherited, std::uint16_t store_port,
                        const DescriptorLimit& limit) {
  for (const WorkerRanks& ranks : ranks_) {
    const WorkerStart start{.ranks = ranks,
                            .store_host = options_.endpoint_host,
                            .store_port = store_port,
                            .attempt = attempt_,
                            .error_file = folder_.error_file(attempt_, ranks.local_rank)};
    const pid_t pid =
        start_worker(worker_command(options_, ranks.local_rank, inherited),
                     worker_environment(options_, start, inherited), logs_.open(ranks), limit);
    running_.emplace(pid, ranks.local_rank);
    groups_.push_back(pid);
  }
}

void WorkerGroup::reap() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
    const int code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
    const auto worker = running_.find(info.si_pid);
    if (worker != running_.end() && code != 0) {
      WorkerFailure& failure = failures_.emplace_back();
      failure.time = std::chrono::system_clock::now();
      failure.host = host_name();
      failure.local_rank = worker->second;
      failure.rank = ranks_[static_cast<std::size_t>(worker->second)].rank;
      failure.exit_code = code;
      failure.pid = info.si_pid;
    }
    if (worker != running_.end()) running_.erase(worker);
    info = {};
  }
  std::erase_if(groups_, [](pid_t group) { return !has_child(group); });
}

/// SIGCONT, as a stopped process would keep the signal waiting.
void WorkerGroup::stop(int signal, std::chrono::milliseconds grace, Time now) {
  if (gone()) return;
  if (!kill_at_) {
    for (const pid_t group : groups_) {
      killpg(group, signal);
      killpg(group, SIGCONT);
    }
  }
  kill_at_ = std::min(kill_at_.value_or(Time::max()), now + grace);
  next_kill_ = std::min(next_kill_.value_or(Time::max()), *kill_at_);
}

void WorkerGroup::advance(Time now) {
  if (gone() || !next_kill_ || now < *next_kill_) return;
  for (const pid_t group : groups_)
    if (has_child(group)) killpg(group, SIGKILL);
  next_kill_ = now + between_kills;
  stuck_ = now >= *kill_at_ + longest_death;
}

bool WorkerGroup::finished() {
  if (!gone()) return false;
  logs_.finish();
  return logs_.finished();
}

std::vector<WorkerFailure> WorkerGroup::take_failures() {
  for (WorkerFailure& failure : failures_) {
    failure.error_file = folder_.error_file(attempt_, failure.local_rank);
    failure.error = read_error_file(failure.error_file);
  }
  return std::move(failures_);
}

}  // namespace shampoo::launcher
