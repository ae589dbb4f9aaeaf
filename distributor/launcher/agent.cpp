// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/agent.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iostream>
#include <utility>

#include "distributor/error.h"
#include "distributor/launcher/descendants.h"
#include "distributor/launcher/host_name.h"
#include "distributor/launcher/read_values.h"

namespace shampoo::launcher {

namespace {

using std::chrono::milliseconds;

/// How long the host waits for the last words of others whose time to stop their workers is over.
constexpr std::chrono::seconds longest_farewell{15};

Introduction introduce(const LaunchOptions& options) {
  const bool fixed = options.rendezvous == Rendezvous::fixed;
  Introduction result;
  result.host = options.local_address.empty() ? host_name() : options.local_address;
  result.pid = getppid();  // the guard: what the user started
  result.workers = options.workers;
  result.role = options.role;
  result.node_rank = fixed ? options.node_rank : -1;
  result.terms["--nnodes"] =
      std::to_string(options.least_nodes) + ":" + std::to_string(options.most_nodes);
  result.terms["--max-restarts"] = std::to_string(options.max_restarts);
  result.terms["--rdzv-backend"] = fixed ? "static" : "c10d";
  return result;
}

JobLimits limits_of(const LaunchOptions& options) {
  return {options.least_nodes, options.most_nodes, options.max_restarts, options.times.join,
          options.times.last_call};
}

}  // namespace

Agent::Agent(const LaunchOptions& options, const Environment& environment, int guard_gone)
    : options_(options),
      environment_(environment),
      guard_gone_(guard_gone),
      signals_(options.signals) {
  adopt_orphans();
}

int Agent::run() {
  try {
    if (!join()) return 1;
  } catch (const CommunicationError& error) {
    say(error.what());
    return 1;
  } catch (const Refused& error) {
    say(error.what());
    return 1;
  }
  while (!exit_code_) step();
  return *exit_code_;
}

/// False where a signal ended it.
bool Agent::join() {
  const auto interrupted = [this] {
    take_signals();
    return told_to_leave_;
  };
  auto meeting = meet(options_, interrupted);
  if (!meeting) return false;
  meeting_ = std::move(*meeting);
  logs_.emplace(options_);
  std::optional<Coordinator> coordinator;
  if (meeting_.host) coordinator.emplace(limits_of(options_), Clock::now());
  nodes_.emplace(*meeting_.store, options_.run_id, introduce(options_), options_.times,
                 std::move(coordinator), [this](Order& order) { prepare(order); });
  report(Stage::waiting);
  return true;
}

void Agent::step() {
  follow_orders();
  settle();
  if (exit_code_) return;
  wait_for_events();
  take_signals();
  workers_.reap();
  workers_.advance(Clock::now());
  look_at_workers();
}

/// Until a signal, a child's end, the guard's end, or the time to talk to the other nodes.
void Agent::wait_for_events() {
  std::array<pollfd, 2> sources{{{signals_.descriptor(), POLLIN, 0}, {guard_gone_, POLLIN, 0}}};
  const std::size_t used = guard_gone_ >= 0 ? 2 : 1;
  auto wait = milliseconds(-1);
  if (nodes_ && options_.most_nodes > 1)
    wait = std::clamp(options_.monitor_interval, milliseconds(20), milliseconds(500));
  if (const auto wake = workers_.wake_at()) {
    const auto left = std::chrono::ceil<milliseconds>(*wake - Clock::now());
    wait = std::max(milliseconds(0), wait.count() < 0 ? left : std::min(wait, left));
  }
  if (reported_) wait = milliseconds(0);  // the host may decide at once
  poll(sources.data(), used, static_cast<int>(wait.count()));
  if (used == 2 && sources[1].revents != 0) {
    guard_gone_ = -1;
    leave(SIGTERM, "its launcher was killed");
  }
}

void Agent::take_signals() {
  while (const auto signal = signals_.next())
    if (*signal != SIGCHLD) leave(*signal, "it got " + signal_name(*signal));
}

/// Passes the first signal on; the second one ends all at once.
void Agent::leave(int signal, const std::string& why) {
  const auto now = Clock::now();
  const bool again = std::exchange(told_to_leave_, true);
  if (again || report_.stage == Stage::done) {
    impatient_ = true;
    workers_.stop(SIGKILL, milliseconds(0), now);
    return;
  }
  say("ends, as " + why);
  workers_.stop(signal, options_.shutdown_timeout, now);
  report(Stage::leaving, 0, why);
}

void Agent::follow_orders() {
  if (!nodes_) return;
  reported_ = false;
  try {
    while (nodes_) {
      const auto order = nodes_->tick(Clock::now());
      if (!order) return;
      obey(*order);
    }
  } catch (const CommunicationError& error) {
    lose_host(error);
  } catch (const Refused& error) {
    end_alone("the job at " + meeting_.place + " refuses this node: " + error.what());
  }
}

void Agent::obey(const Order& order) {
  if (order.kind == Order::Kind::run) {
    if (!told_to_leave_) start_attempt(order);
    return;
  }
  const bool ends = order.kind == Order::Kind::end;
  if (!order.text.empty()) say((ends ? "the job ends: " : "next attempt: ") + order.text);
  order_ = order;
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
}

void Agent::start_attempt(const Order& order) {
  auto ranks = ranks_of(order, nodes_->id());
  if (ranks.empty()) return;  // the job runs without us, for now
  workers_.clear();
  failures_.clear();
  try {
    attempt_.emplace(options_, *logs_, environment_, order, std::move(ranks));
    report_.attempt = order.attempt;
    attempt_->start(workers_);
    report(Stage::running);
  } catch (const std::exception& error) {  // of any kind: it would meet the next attempt too
    report(Stage::broken, 0, error.what());
    workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  }
}

void Agent::look_at_workers() {
  if (!attempt_) return;
  const auto& exits = workers_.exits();
  const auto failed = std::ranges::find_if(exits, [](const auto& exit) { return exit.code != 0; });
  const bool news = report_.stage == Stage::running && !workers_.stopping();
  if (news && failed != exits.end()) report_failure(*failed);
  // What workers left behind may end in peace, too.
  if (workers_.workers_ended()) workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  if (workers_.gone()) workers_gone();
}

void Agent::report_failure(const WorkerExit& first) {
  const WorkerFailure failure = attempt_->failures({first}).front();
  const std::string end =
      first.code < 0 ? signal_name(-first.code) : "exit code " + std::to_string(first.code);
  say("worker of rank " + std::to_string(failure.rank) + " (local rank " +
      std::to_string(first.local_rank) + ", pid " + std::to_string(first.pid) + ") ended: " + end);
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  report(Stage::failed, shell_exit_code(failure),
         "rank " + std::to_string(failure.rank) + " ended: " + end);
}

void Agent::workers_gone() {
  const bool all_zero =
      std::ranges::all_of(workers_.exits(), [](const auto& e) { return e.code == 0; });
  attempt_->finish();
  if (report_.stage == Stage::failed) failures_ = attempt_->failures(workers_.exits());
  attempt_.reset();
  if (!workers_.stuck().empty())
    report(Stage::broken, 0,
           "process " + std::to_string(workers_.stuck().front()) + " does not end by SIGKILL");
  else if (report_.stage == Stage::running && all_zero && !order_)
    report(Stage::succeeded);
}

/// What was to happen once nothing runs.
void Agent::settle() {
  if (!idle() || exit_code_) return;
  if (!nodes_) {
    exit_code_ = 1;
  } else if (order_ && order_->kind == Order::Kind::end) {
    finish(*order_);
  } else if (told_to_leave_ && !nodes_->host()) {
    summarize(1);
    exit_code_ = 1;
  } else if (order_) {
    report_.order = order_->number;
    order_.reset();
    if (report_.stage != Stage::broken && !told_to_leave_) report(Stage::waiting);
  }
}

/// The host goes last, so that the others learn how the job ended.
void Agent::finish(const Order& order) {
  if (report_.stage != Stage::done) {
    summarize(order.code);
    barrier_until_ = Clock::now() + options_.shutdown_timeout + longest_farewell;
    report(Stage::done);
  }
  const bool alone = !nodes_ || !nodes_->host() || nodes_->finished();
  if (!alone && !impatient_ && Clock::now() < barrier_until_) return;
  const bool failed = told_to_leave_ || order.code != 0;
  exit_code_ = failed && options_.pass_on_exit_code && !told_to_leave_ ? order.code : failed;
}

void Agent::report(Stage stage, int code, const std::string& text) {
  report_.stage = stage;
  report_.code = code;
  report_.text = text;
  if (!nodes_) return;
  reported_ = true;
  try {
    nodes_->report(report_);
  } catch (const CommunicationError& error) {
    if (stage != Stage::done) lose_host(error);
  }
}

void Agent::lose_host(const CommunicationError& error) {
  end_alone("the node that hosts the job at " + meeting_.place + " is gone: " + error.what());
}

void Agent::end_alone(const std::string& why) {
  say(why);
  nodes_.reset();
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
}

/// At the host: opens the store that the workers of an attempt will use. A new one each time, so
/// that no attempt finds keys of the last.
void Agent::prepare(Order& order) {
  worker_store_.reset();
  StoreServerOptions server;
  if (options_.rendezvous == Rendezvous::fixed && options_.most_nodes == 1)
    server.port = options_.endpoint_port;  // otherwise the launchers use it
  worker_store_ = std::make_unique<StoreServer>(server);
  order.store_host = options_.local_address.empty() || options_.most_nodes == 1
                         ? options_.endpoint_host
                         : options_.local_address;
  order.store_port = worker_store_->port();
}

void Agent::summarize(int code) {
  if (code == 0 || failures_.empty()) return;
  std::cerr << failure_summary(options_.program, failures_) << '\n';
  const auto own = environment_.find("TORCHELASTIC_ERROR_FILE");
  if (own == environment_.end() || own->second.empty()) return;
  const WorkerFailure& root = root_cause(failures_);
  try {
    write_error_file(own->second, root.error, root.message(), root.when(), root.exit_code);
  } catch (const std::exception& error) {
    say(error.what());
  }
}

void Agent::say(std::string_view text) const {
  std::cerr << "shampoorun: " + std::string(text) + "\n" << std::flush;
}

}  // namespace shampoo::launcher
