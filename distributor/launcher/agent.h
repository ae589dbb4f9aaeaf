// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "distributor/error.h"
#include "distributor/launcher/attempt.h"
#include "distributor/launcher/environment.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/log_folder.h"
#include "distributor/launcher/meeting_point.h"
#include "distributor/launcher/node_group.h"
#include "distributor/launcher/signal_queue.h"
#include "distributor/launcher/worker_group.h"

namespace shampoo::launcher {

/// One node's part in a job, from rendezvous to exit code. One thread and one poll(): obeys the
/// orders of the job's host, reports what its workers do, and acts on signals at any time.
class Agent {
 public:
  /// All is borrowed. `guard_gone`: see run_guarded().
  Agent(const LaunchOptions& options, const Environment& environment, int guard_gone);

  /// Waits until the job has ended and nothing of it is left on this node. The exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  bool join();
  void step();
  void wait_for_events();
  void take_signals();
  void leave(int signal, const std::string& why);
  void follow_orders();
  void obey(const Order& order);
  void start_attempt(const Order& order);
  void look_at_workers();
  void report_failure(const WorkerExit& first);
  void workers_gone();
  void settle();
  void finish(const Order& order);
  void report(Stage stage, int code = 0, const std::string& text = "");
  void lose_host(const CommunicationError& error);
  void end_alone(const std::string& why);
  void prepare(Order& order);
  void summarize(int code);
  void say(std::string_view text) const;
  bool idle() const { return !attempt_; }

  const LaunchOptions& options_;
  const Environment& environment_;
  int guard_gone_;
  SignalQueue signals_;
  WorkerGroup workers_;
  std::optional<LogFolder> logs_;
  MeetingPoint meeting_;
  std::optional<NodeGroup> nodes_;  ///< empty: not joined, or without a host
  std::unique_ptr<StoreServer> worker_store_;

  std::optional<Attempt> attempt_;       ///< whose processes are not all gone
  std::vector<WorkerFailure> failures_;  ///< of the last attempt
  Report report_;
  std::optional<Order> order_;       ///< to wait or to end; obeyed once nothing runs
  bool told_to_leave_ = false;       ///< by a signal, or the guard is gone
  bool impatient_ = false;           ///< asked twice
  bool reported_ = false;            ///< since the host looked last
  Clock::time_point barrier_until_;  ///< of the host, for the others to end
  std::optional<int> exit_code_;
};

}  // namespace shampoo::launcher
