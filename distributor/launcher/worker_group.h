// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/output/failure_summary.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/output/worker_logs.h"
#include "distributor/launcher/worker.h"
#include "distributor/launcher/worker_setup.h"
#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// The workers of this node in one attempt, their logs, and the rest of their process groups.
/// Nothing but start() waits: poll for SIGCHLD, for wake_at() and for output_descriptor(). Orphans
/// of the groups become children of this process.
class WorkerGroup {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// `options` and `folder` are borrowed. Throws std::system_error.
  WorkerGroup(const LaunchOptions& options, const LogFolder& folder, int attempt,
              std::vector<WorkerRanks> ranks);

  /// Starts all workers. `store_port`: see options.endpoint_host. Throws std::runtime_error; some
  /// may run then.
  void start(const Environment& inherited, std::uint16_t store_port, const DescriptorLimit& limit);

  /// Takes note of all that ended; for each SIGCHLD.
  void reap();
  /// Workers that failed, in the order of their ends; without their error files.
  const std::vector<WorkerFailure>& failures() const { return failures_; }
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

  /// Begins, once all are gone, to write the rest of their output; true when that is done.
  bool finished();
  /// Readable when finished() may become true; -1: that needs no wait.
  int output_descriptor() const { return logs_.descriptor(); }
  /// From then on output that the console does not take at once is lost. Only shortens.
  void leave_console(Time end) { logs_.leave_console(end); }
  /// Once finished: the failures, with their error files.
  std::vector<WorkerFailure> take_failures();

 private:
  const LaunchOptions& options_;
  const LogFolder& folder_;
  int attempt_;
  std::vector<WorkerRanks> ranks_;
  WorkerLogs logs_;
  std::map<pid_t, int> running_;  ///< local ranks
  std::vector<pid_t> groups_;     ///< with a child of this process
  std::vector<WorkerFailure> failures_;
  bool stuck_ = false;
  std::optional<Time> kill_at_, next_kill_;
};

}  // namespace shampoo::launcher
