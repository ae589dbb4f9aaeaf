// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "distributor/launcher/announcer.h"
#include "distributor/launcher/attempt.h"
#include "distributor/launcher/descriptor_limit.h"
#include "distributor/launcher/environment.h"
#include "distributor/launcher/launch_options.h"
#include "distributor/launcher/log_folder.h"
#include "distributor/launcher/node_thread.h"
#include "distributor/launcher/signal_queue.h"
#include "distributor/launcher/worker_group.h"

namespace shampoo::launcher {

/// One node's part in a job, from rendezvous to exit code: obeys the orders of the job's host,
/// reports what its workers do, and acts on signals. All of it on one thread, which waits in one
/// poll() and nowhere else: not for the network, and not for a reader of the console.
class Agent {
 public:
  /// All is borrowed. `guard_gone`: see run_guarded().
  Agent(const LaunchOptions& options, const Environment& environment, int guard_gone);

  /// Waits until the job has ended and nothing of it is left on this node. The exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void step();
  void wait_for_events();
  int longest_wait() const;
  void take_signals();
  void guard_is_gone();
  void leave(int signal, const std::string& why);
  void hurry();

  void hear();
  void obey(const Order& order);
  void start_attempt(const Order& order);
  void look_at_workers();
  void report_failure(const WorkerExit& first);
  void attempt_ended();

  void settle();
  void finish(const Order& order);
  void end_with(int code);
  bool farewell_is_over() const;

  void report(Stage stage, int code = 0, const std::string& text = "");
  void summarize();

  const LaunchOptions& options_;
  const Environment& environment_;
  int guard_gone_;
  pid_t guard_;
  DescriptorLimit limit_of_workers_;
  SignalQueue signals_;
  Announcer announcer_;
  WorkerGroup workers_;
  std::optional<LogFolder> logs_;
  std::unique_ptr<NodeThread> nodes_;  ///< empty: on its own

  std::optional<Attempt> attempt_;       ///< whose processes and logs have not all ended
  std::vector<WorkerFailure> failures_;  ///< of the last attempt
  Report report_;
  std::optional<Order> order_;  ///< to wait or to end; obeyed once nothing runs
  bool told_to_leave_ = false;  ///< by a signal, or the guard is gone
  int times_told_ = 0;          ///< by the guard, whose signals count
  Clock::time_point barrier_until_ = Clock::time_point::max();  ///< of the host, for the others
  std::optional<int> exit_code_;
  Clock::time_point farewell_until_ = Clock::time_point::max();  ///< to be heard before the exit
};

}  // namespace shampoo::launcher
