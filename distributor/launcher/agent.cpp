// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/agent.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "distributor/launcher/poll_time.h"

namespace shampoo::launcher {

namespace {

using std::chrono::milliseconds;

/// How long the host waits, at the end, for others whose shutdown timeout is over.
constexpr milliseconds others_grace{15'000};
/// How long the others wait for the host to take their last report.
constexpr milliseconds last_report{5'000};
/// Signals that follow the first one so soon are the same one: timeout(1) sends it twice.
constexpr milliseconds same_signal{500};
/// How long a console that takes no more holds up a shutdown once the workers are gone.
constexpr milliseconds console_grace{1'000};

}  // namespace

Agent::Agent(const LaunchOptions& options, const Environment& environment)
    : options_(options),
      environment_(environment),
      workers_limit_(raise_descriptor_limit()),
      signals_(options.signals),
      console_(STDERR_FILENO) {}

int Agent::run() {
  nodes_ = std::make_unique<NodeThread>(options_);
  report(Stage::waiting);
  while (!exit_code_) {
    wait_for_events();
    take_signals();
    if (workers_) check_workers();
    receive();
    proceed();
  }
  if (nodes_ && !forced_) nodes_->flush(last_report);
  show_last_lines();
  return *exit_code_;
}

/// Until a signal, a child's end, news of other nodes, the time of a SIGKILL, the end of output, or
/// room on the console.
void Agent::wait_for_events() {
  constexpr auto never = Clock::time_point::max();
  std::array sources{pollfd{signals_.descriptor(), POLLIN, 0},
                     pollfd{nodes_ ? nodes_->descriptor() : -1, POLLIN, 0},
                     pollfd{workers_ ? workers_->output_descriptor() : -1, POLLIN, 0},
                     pollfd{lines_.empty() ? -1 : console_.descriptor(), POLLOUT, 0}};
  const auto kill = workers_ ? workers_->wake_at() : std::nullopt;
  poll(sources.data(), sources.size(), poll_time(std::min(kill.value_or(never), others_deadline_)));
  show_lines();
}

void Agent::take_signals() {
  while (const auto signal = signals_.next()) {
    if (*signal == SIGCHLD) continue;
    if (report_.stage == Stage::done)
      shut_down_now();
    else if (!shutdown_begun_)
      shut_down(*signal);
    else if (Clock::now() - *shutdown_begun_ > same_signal)
      shut_down_now();
  }
}

void Agent::shut_down(int signal) {
  shutdown_begun_ = Clock::now();
  stop_workers(signal);
  report(Stage::leaving, 0, "it got " + signal_name(signal));
  print("shutting down after " + signal_name(signal));
}

void Agent::shut_down_now() {
  forced_ = true;
  if (!workers_) return;
  workers_->stop(SIGKILL, milliseconds(0), Clock::now());
  workers_->leave_console(Clock::now());
}

void Agent::receive() {
  if (!nodes_) return;
  const NodeEvents events = nodes_->take();
  joined_ = events.joined;
  others_finished_ = events.finished;
  for (const Order& order : events.orders) execute(order);
  if (!events.failure) return;
  nodes_.reset();
  stop_workers(SIGTERM);
  if (report_.stage != Stage::done) print(*events.failure);
}

void Agent::execute(const Order& order) {
  if (order.kind == OrderKind::run) {
    if (!shutdown_begun_) start_attempt(order);
    return;
  }
  stop_workers(SIGTERM);
  order_ = order;
  if (!order.text.empty())
    print((order.kind == OrderKind::end ? "the job ends: " : "next attempt: ") + order.text);
}

void Agent::start_attempt(const Order& order) {
  if (!joined_) return;
  workers_.reset();
  failures_.clear();
  report_.attempt = order.attempt;
  try {
    if (!logs_) logs_.emplace(options_);
    workers_.emplace(options_, *logs_, order.attempt, ranks_of(order, joined_->node));
    workers_->start(environment_, joined_->store_port, workers_limit_);
    report(Stage::running);
  } catch (const std::exception& error) {  // the next attempt would meet it, too
    stop_workers(SIGTERM);
    report(Stage::broken, 0, error.what());
  }
}

void Agent::check_workers() {
  workers_->reap();
  workers_->advance(Clock::now());
  if (report_.stage == Stage::running && !workers_->stopping() && !workers_->failures().empty())
    report_failure(workers_->failures().front());
  if (workers_->workers_ended()) stop_workers(SIGTERM);  // the rest of their process groups
  if (workers_->gone() && shutdown_begun_) workers_->leave_console(Clock::now() + console_grace);
  if (workers_->finished()) end_attempt();
}

void Agent::report_failure(const WorkerFailure& first) {
  stop_workers(SIGTERM);
  const std::string end = first.exit_code < 0 ? signal_name(-first.exit_code)
                                              : "exit code " + std::to_string(first.exit_code);
  const std::string rank = "rank " + std::to_string(first.rank);
  report(Stage::failed, shell_exit_code(first), rank + " failed: " + end);
  print("worker of " + rank + " (local rank " + std::to_string(first.local_rank) + ", pid " +
        std::to_string(first.pid) + ") failed: " + end);
}

void Agent::end_attempt() {
  const std::vector<WorkerFailure> failures = workers_->take_failures();
  if (report_.stage == Stage::failed) failures_ = failures;
  if (workers_->stuck())
    report(Stage::broken, 0, "a worker does not end by SIGKILL");
  else if (report_.stage == Stage::running && !order_ && failures.empty())
    report(Stage::succeeded);
  workers_.reset();
}

/// Acts on orders and signals once no worker runs.
void Agent::proceed() {
  if (workers_ || exit_code_) return;
  if (order_ && order_->kind == OrderKind::end) {
    finish(*order_);
  } else if (!nodes_ || forced_ || (shutdown_begun_ && !(joined_ && joined_->is_host))) {
    print_summary();
    exit_code_ = 1;
  } else if (order_) {
    report_.order = order_->number;
    order_.reset();
    if (report_.stage != Stage::broken && !shutdown_begun_) report(Stage::waiting);
  }
}

/// The host goes last, so that the others learn how the job ended.
void Agent::finish(const Order& order) {
  if (report_.stage != Stage::done) {
    others_deadline_ = Clock::now() + options_.shutdown_timeout + others_grace;
    report(Stage::done);
    if (order.code != 0) print_summary();
  }
  const bool awaits_others = joined_ && joined_->is_host && !others_finished_;
  if (awaits_others && !forced_ && Clock::now() < others_deadline_) return;
  const bool failed = shutdown_begun_ || order.code != 0;
  exit_code_ = failed && options_.worker_exit_code && !shutdown_begun_ ? order.code : failed;
}

void Agent::print_summary() {
  if (!failures_.empty()) lines_ += failure_summary(options_.program, failures_) + "\n";
  show_lines();
}

void Agent::print(const std::string& message) {
  lines_ += "shampoorun: " + message + "\n";
  show_lines();
}

/// As many as the console takes now.
void Agent::show_lines() {
  std::string_view rest = lines_;
  if (console_.write(rest) != 0) rest = {};  // it is gone
  lines_.erase(0, lines_.size() - rest.size());
}

/// Waits for the console, until a signal and in a shutdown not for long.
void Agent::show_last_lines() {
  auto end = shutdown_begun_ ? Clock::now() + console_grace : Clock::time_point::max();
  if (forced_) end = Clock::now();
  while (!lines_.empty() && Clock::now() < end) {
    std::array sources{pollfd{signals_.descriptor(), POLLIN, 0},
                       pollfd{console_.descriptor(), POLLOUT, 0}};
    poll(sources.data(), sources.size(), poll_time(end));
    show_lines();
    while (const auto signal = signals_.next())
      if (*signal != SIGCHLD) return;
  }
}

void Agent::stop_workers(int signal) {
  if (workers_) workers_->stop(signal, options_.shutdown_timeout, Clock::now());
}

void Agent::report(Stage stage, int code, const std::string& text) {
  report_.stage = stage;
  report_.code = code;
  report_.text = text;
  if (nodes_) nodes_->report(report_);
}

}  // namespace shampoo::launcher
