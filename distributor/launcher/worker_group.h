// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <vector>

namespace shampoo::launcher {

/// The end of a worker.
struct WorkerExit {
  int local_rank = 0;
  pid_t pid = 0;
  int code = 0;  ///< negative: the signal that ended it
  std::chrono::system_clock::time_point time;
};

/// The workers of this node and the rest of their process groups. Nothing here waits: poll for
/// SIGCHLD and for wake_at(). Orphans of the groups become children of this process.
class WorkerGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Throws std::system_error.
  WorkerGroup();

  /// Begins a new attempt, without any worker.
  void clear() { *this = WorkerGroup(); }
  /// `pid` leads its process group.
  void add(pid_t pid, int local_rank);

  /// Takes note of all that ended; for each SIGCHLD.
  void reap();
  /// In the order of their ends.
  const std::vector<WorkerExit>& exits() const { return exits_; }
  /// True while no worker runs; other processes of their groups may.
  bool workers_ended() const { return running_.empty(); }
  /// True while no process runs, or only such that SIGKILL does not end: see stuck().
  bool gone() const { return groups_.empty() || stuck(); }
  bool stuck() const { return stuck_; }

  /// Sends `signal` to all groups, and SIGKILL to what is left after `grace`. Called again, only
  /// shortens the grace.
  void stop(int signal, std::chrono::milliseconds grace, Time now);
  bool stopping() const { return kill_at_.has_value(); }
  /// Sends SIGKILL where it is due, repeatedly, as processes may fork meanwhile.
  void advance(Time now);
  std::optional<Time> wake_at() const { return gone() ? std::nullopt : next_kill_; }

 private:
  std::map<pid_t, int> running_;  ///< local ranks
  std::vector<pid_t> groups_;     ///< with a child of this process
  std::vector<WorkerExit> exits_;
  bool stuck_ = false;
  std::optional<Time> kill_at_, next_kill_;
};

}  // namespace shampoo::launcher
