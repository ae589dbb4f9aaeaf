// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/nodes/node_thread.h"
#include "distributor/launcher/output/console_stream.h"
#include "distributor/launcher/output/log_folder.h"
#include "distributor/launcher/signal_queue.h"
#include "distributor/launcher/worker_group.h"
#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// One node's part in a job, from rendezvous to exit code: executes the orders of the job's host,
/// reports the state of its workers, and acts on signals. Runs on the calling thread, which waits
/// in poll(), and for log folders and programs to be opened: a file system that hangs holds it up.
class Agent {
 public:
  /// All is borrowed.
  Agent(const LaunchOptions& options, const Environment& environment);

  /// Waits until the job has ended and the workers of this node are gone. The exit code.
  int run();

 private:
  using Clock = std::chrono::steady_clock;

  void wait_for_events();
  void take_signals();
  void shut_down(int signal);
  void shut_down_now();
  void receive();
  void execute(const Order& order);
  void start_attempt(const Order& order);
  void check_workers();
  void report_failure(const WorkerFailure& first);
  void end_attempt();
  void proceed();
  void finish(const Order& order);
  void print_summary();
  void print(const std::string& message);
  void show_lines();
  void show_last_lines();
  void stop_workers(int signal);
  void report(Stage stage, int code = 0, const std::string& text = "");

  const LaunchOptions& options_;
  const Environment& environment_;
  DescriptorLimit workers_limit_;
  SignalQueue signals_;
  std::optional<LogFolder> logs_;
  std::unique_ptr<NodeThread> nodes_;  ///< null: the host is gone
  std::optional<JoinedNode> joined_;
  bool others_finished_ = false;  ///< at the host

  ConsoleStream console_;
  std::string lines_;  ///< own ones that the console has not taken yet

  std::optional<WorkerGroup> workers_;   ///< empty: all are gone, and their output is written
  std::vector<WorkerFailure> failures_;  ///< of the last attempt
  Report report_;
  std::optional<Order> order_;                       ///< to wait or to end; once nothing runs
  std::optional<Clock::time_point> shutdown_begun_;  ///< by a signal
  bool forced_ = false;  ///< by a second signal: other nodes are not awaited
  Clock::time_point others_deadline_ = Clock::time_point::max();  ///< of the host, at the end
  std::optional<int> exit_code_;
};

}  // namespace shampoo::launcher
