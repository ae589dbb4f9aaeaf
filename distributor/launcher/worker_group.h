// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/descendants.h"

namespace shampoo::launcher {

/// How a worker ended.
struct WorkerExit {
  int local_rank = 0;
  pid_t pid = 0;
  int code = 0;  ///< negative: the signal that ended it
  std::chrono::system_clock::time_point time;
};

/// The workers of this node and all that they started; without /proc, only what stayed in their
/// process groups can be found. Nothing here waits: poll for SIGCHLD and for
/// wake_at(). All children of this process must be workers, and orphans below it must come to it
/// (adopt_orphans()).
class WorkerGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// Begins a new attempt. Nobody may be left of the last.
  void clear();
  void add(pid_t pid, int local_rank);

  /// Takes note of all that ended; for each SIGCHLD.
  void reap();
  /// In the order of their ends.
  const std::vector<WorkerExit>& exits() const { return exits_; }
  /// Whether no worker runs; their children may.
  bool workers_ended() const { return running_.empty(); }
  /// Whether nothing runs, or what runs does not end even by SIGKILL: see stuck().
  bool gone() const { return gone_ || stuck_; }
  /// Names what does not end, for messages.
  const std::optional<std::string>& stuck() const { return stuck_; }

  /// Sends `signal` to all, and SIGKILL to those that are left after `grace`. During a stop only
  /// shortens its grace.
  void stop(int signal, std::chrono::milliseconds grace, Time now);
  bool stopping() const { return kill_at_.has_value(); }
  /// Sends SIGKILL where it is time; again and again, as processes may fork meanwhile.
  void advance(Time now);
  std::optional<Time> wake_at() const { return gone() ? std::nullopt : next_kill_; }

 private:
  void send(int signal, const std::vector<Descendant>& descendants) const;

  std::map<pid_t, int> running_;  ///< local ranks
  std::vector<pid_t> groups_;
  std::vector<WorkerExit> exits_;
  bool gone_ = true;
  std::optional<Time> kill_at_, next_kill_;
  std::optional<std::string> stuck_;
};

}  // namespace shampoo::launcher
