// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_group.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>

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

WorkerGroup::WorkerGroup() {
  if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
    throw std::system_error(errno, std::generic_category(), "prctl(PR_SET_CHILD_SUBREAPER)");
}

void WorkerGroup::add(pid_t pid, int local_rank) {
  running_.emplace(pid, local_rank);
  groups_.push_back(pid);
}

void WorkerGroup::reap() {
  siginfo_t info{};
  while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) == 0 && info.si_pid != 0) {
    if (const auto worker = running_.find(info.si_pid); worker != running_.end()) {
      const int code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
      exits_.push_back({worker->second, info.si_pid, code, std::chrono::system_clock::now()});
      running_.erase(worker);
    }
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

}  // namespace shampoo::launcher
