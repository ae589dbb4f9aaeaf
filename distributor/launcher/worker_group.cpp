// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>

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
  if (!kill_at_) send(signal, descendants_of(getpid()));
  kill_at_ = std::min(kill_at_.value_or(Time::max()), now + grace);
  next_kill_ = std::min(next_kill_.value_or(Time::max()), *kill_at_);
}

void WorkerGroup::advance(Time now) {
  if (gone() || !next_kill_ || now < *next_kill_) return;
  const std::vector<Descendant> left = descendants_of(getpid());
  send(SIGKILL, left);
  next_kill_ = now + between_kills;
  if (now < *kill_at_ + longest_death) return;
  if (!left.empty())
    stuck_ = "process " + std::to_string(left.front().pid);
  else if (!running_.empty())
    stuck_ = "process " + std::to_string(running_.begin()->first);
  else
    stuck_ = "a process that /proc does not show";
}

/// A group is this one's own, and its number not used again, as long as a child is in it: a worker,
/// or an orphan of one. This holds for what /proc does not show, too.
void WorkerGroup::send(int signal, const std::vector<Descendant>& descendants) const {
  std::set<pid_t> reached;
  for (const pid_t group : groups_) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(group);
    if (waitid(P_PGID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0) continue;
    killpg(group, signal);
    reached.insert(group);
  }
  for (const Descendant& descendant : descendants) {
    if (!reached.contains(descendant.group)) kill(descendant.pid, signal);
    if (descendant.stopped) kill(descendant.pid, SIGCONT);
  }
}

}  // namespace shampoo::launcher
