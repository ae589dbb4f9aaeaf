// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "distributor/launcher/descendants.h"

namespace shampoo::launcher {

namespace {

constexpr std::chrono::milliseconds between_kills{20};
constexpr std::chrono::seconds longest_death{10};

}  // namespace

void WorkerGroup::clear() { *this = WorkerGroup(); }

void WorkerGroup::add(pid_t pid, int local_rank) {
  running_.emplace(pid, local_rank);
  groups_.push_back(pid);
  gone_ = false;
}

void WorkerGroup::reap() {
  siginfo_t info{};
  int result = 0;
  while ((result = waitid(P_ALL, 0, &info, WEXITED | WNOHANG)) == 0 && info.si_pid != 0) {
    if (const auto worker = running_.find(info.si_pid); worker != running_.end()) {
      const int code = info.si_code == CLD_EXITED ? info.si_status : -info.si_status;
      exits_.push_back({worker->second, info.si_pid, code, std::chrono::system_clock::now()});
      running_.erase(worker);
    }
    info = {};
  }
  gone_ = result != 0 && errno == ECHILD;
}

void WorkerGroup::stop(int signal, std::chrono::milliseconds grace, Time now) {
  if (gone()) return;
  if (!kill_at_) signal_descendants(signal, descendants_of(getpid()), groups_);
  kill_at_ = std::min(kill_at_.value_or(Time::max()), now + grace);
  next_kill_ = std::min(next_kill_.value_or(Time::max()), *kill_at_);
}

void WorkerGroup::advance(Time now) {
  if (gone() || !next_kill_ || now < *next_kill_) return;
  const std::vector<Descendant> left = descendants_of(getpid());
  signal_descendants(SIGKILL, left, groups_);
  next_kill_ = now + between_kills;
  if (now < *kill_at_ + longest_death) return;
  for (const Descendant& descendant : left) stuck_.push_back(descendant.pid);
}

}  // namespace shampoo::launcher
