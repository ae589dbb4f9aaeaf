// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/agent.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <utility>

#include "distributor/launcher/descendants.h"
#include "distributor/launcher/read_values.h"

namespace shampoo::launcher {

namespace {

using std::chrono::milliseconds;

/// How long the host waits for the last words of others whose time to stop their workers is over,
/// and any node for the host to hear its own.
constexpr milliseconds longest_farewell{15'000};
/// What is left of that, and of the patience with a console, after a signal.
constexpr milliseconds short_farewell{1'000};

}  // namespace

Agent::Agent(const LaunchOptions& options, const Environment& environment, int guard_gone)
    : options_(options),
      environment_(environment),
      guard_gone_(guard_gone),
      guard_(getppid()),
      limit_of_workers_(raise_descriptor_limit()),
      signals_(options.signals) {
  adopt_orphans();
}

int Agent::run() {
  nodes_ = std::make_unique<NodeThread>(options_);
  report(Stage::waiting);
  while (!exit_code_ || !farewell_is_over()) step();
  return *exit_code_;
}

void Agent::step() {
  wait_for_events();
  announcer_.flush();
  take_signals();
  workers_.reap();
  workers_.advance(Clock::now());
  look_at_workers();
  hear();
  settle();
}

/// Until a signal, a child's end, the guard's end, or news of nodes, logs and console.
void Agent::wait_for_events() {
  const auto source = [](bool wanted, int descriptor, short events = POLLIN) {
    return pollfd{wanted ? descriptor : -1, events, 0};
  };
  std::array sources{
      source(true, signals_.descriptor()),
      source(guard_gone_ >= 0, guard_gone_),
      source(nodes_ != nullptr, nodes_ ? nodes_->descriptor() : -1),
      source(attempt_.has_value(), attempt_ ? attempt_->logs_ended() : -1),
      source(announcer_.pending(), announcer_.descriptor(), POLLOUT),
  };
  poll(sources.data(), sources.size(), longest_wait());
  if (sources[1].revents != 0) guard_is_gone();
}

/// In milliseconds; -1: for ever.
int Agent::longest_wait() const {
  constexpr auto never = Clock::time_point::max();
  const auto now = Clock::now();
  auto wake = std::min(workers_.wake_at().value_or(never), barrier_until_);
  if (farewell_until_ > now) wake = std::min(wake, farewell_until_);
  if (wake == never) return -1;
  const auto left = std::chrono::ceil<milliseconds>(wake - now).count();
  return static_cast<int>(std::clamp<long>(left, 0, INT_MAX));
}

/// The guard passes its signals on. Where a whole process group or container gets one, it comes
/// from the guard too, and is still one: only the guard's count.
void Agent::take_signals() {
  while (const auto signal = signals_.next()) {
    if (signal->number == SIGCHLD) continue;
    times_told_ += signal->sender == guard_ || guard_gone_ < 0;
    leave(signal->number, "it got " + signal_name(signal->number));
  }
}

void Agent::guard_is_gone() {
  guard_gone_ = -1;
  ++times_told_;
  leave(SIGTERM, "its launcher was killed");
}

/// Passes the first signal on; the second one ends all at once. What stops the workers comes
/// before all that others must hear of it.
void Agent::leave(int signal, const std::string& why) {
  const bool first = !std::exchange(told_to_leave_, true);
  const bool at_once = times_told_ > 1 || (report_.stage == Stage::done && times_told_ > 0);
  if (at_once) {
    times_told_ = 2;
    workers_.stop(SIGKILL, milliseconds(0), Clock::now());
  } else if (first) {
    workers_.stop(signal, options_.shutdown_timeout, Clock::now());
  }
  hurry();
  if (!first || report_.stage == Stage::done) return;
  announcer_.say("ends, as " + why);
  report(Stage::leaving, 0, why);
}

/// What remains to be done need not be waited for as long as otherwise.
void Agent::hurry() {
  const milliseconds patience = times_told_ > 1 ? milliseconds(0) : short_farewell;
  if (attempt_) attempt_->hurry_logs(patience);
  if (exit_code_) farewell_until_ = std::min(farewell_until_, Clock::now() + patience);
  if (times_told_ > 1) barrier_until_ = Clock::now();
}

void Agent::hear() {
  if (!nodes_) return;
  const NodeNews news = nodes_->take();
  for (const Order& order : news.orders) obey(order);
  if (!news.lost) return;
  nodes_.reset();
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  if (report_.stage != Stage::done) announcer_.say(*news.lost);
}

void Agent::obey(const Order& order) {
  if (order.kind == Order::Kind::run) {
    if (!told_to_leave_) start_attempt(order);
    return;
  }
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  const bool ends = order.kind == Order::Kind::end;
  if (!order.text.empty())
    announcer_.say((ends ? "the job ends: " : "next attempt: ") + order.text);
  order_ = order;
}

void Agent::start_attempt(const Order& order) {
  auto ranks = ranks_of(order, nodes_->id().value_or(0));
  if (ranks.empty()) return;  // the job runs without us, for now
  workers_.clear();
  failures_.clear();
  try {
    if (!logs_) logs_.emplace(options_);
    attempt_.emplace(options_, *logs_, environment_, order, std::move(ranks));
    report_.attempt = order.attempt;
    attempt_->start(workers_, limit_of_workers_);
    report(Stage::running);
  } catch (const std::exception& error) {  // of any kind: it would meet the next attempt too
    workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
    report(Stage::broken, 0, error.what());
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
  if (!workers_.gone()) return;
  attempt_->close_logs();
  if (attempt_->logs_done()) attempt_ended();
}

void Agent::report_failure(const WorkerExit& first) {
  workers_.stop(SIGTERM, options_.shutdown_timeout, Clock::now());
  const WorkerFailure failure = attempt_->failures({first}).front();
  const std::string end =
      first.code < 0 ? signal_name(-first.code) : "exit code " + std::to_string(first.code);
  announcer_.say("worker of rank " + std::to_string(failure.rank) + " (local rank " +
                 std::to_string(first.local_rank) + ", pid " + std::to_string(first.pid) +
                 ") ended: " + end);
  report(Stage::failed, shell_exit_code(failure),
         "rank " + std::to_string(failure.rank) + " ended: " + end);
}

void Agent::attempt_ended() {
  const bool all_zero =
      std::ranges::all_of(workers_.exits(), [](const auto& e) { return e.code == 0; });
  if (const std::size_t dropped = attempt_->dropped_bytes())
    announcer_.say("the console took no more: " + std::to_string(dropped) +
                   " bytes of the workers' output were not shown");
  if (report_.stage == Stage::failed) failures_ = attempt_->failures(workers_.exits());
  attempt_.reset();
  if (const auto stuck = workers_.stuck())
    report(Stage::broken, 0, *stuck + " does not end by SIGKILL");
  else if (report_.stage == Stage::running && all_zero && !order_)
    report(Stage::succeeded);
}

/// What was to happen once nothing runs.
void Agent::settle() {
  if (attempt_ || exit_code_) return;
  if (order_ && order_->kind == Order::Kind::end) {
    finish(*order_);
  } else if (!nodes_) {
    end_with(1);
  } else if (told_to_leave_ && !nodes_->host()) {
    summarize();
    end_with(1);
  } else if (order_) {
    report_.order = order_->number;
    order_.reset();
    if (report_.stage != Stage::broken && !told_to_leave_) report(Stage::waiting);
  }
}

/// The host goes last, so that the others learn how the job ended.
void Agent::finish(const Order& order) {
  if (report_.stage != Stage::done) {
    if (order.code != 0) summarize();
    barrier_until_ = Clock::now() + options_.shutdown_timeout + longest_farewell;
    report(Stage::done);
  }
  const bool last = !nodes_ || !nodes_->host() || nodes_->finished();
  if (!last && times_told_ < 2 && Clock::now() < barrier_until_) return;
  const bool failed = told_to_leave_ || order.code != 0;
  end_with(failed && options_.pass_on_exit_code && !told_to_leave_ ? order.code : failed);
}

void Agent::end_with(int code) {
  exit_code_ = code;
  barrier_until_ = Clock::time_point::max();
  farewell_until_ = Clock::now() + longest_farewell;
  if (told_to_leave_) hurry();
}

/// A console is waited for until a signal comes; the host, not for ever.
bool Agent::farewell_is_over() const {
  const bool met = nodes_ && nodes_->id();
  const bool heard = !met || nodes_->delivered() || Clock::now() >= farewell_until_;
  const bool shown = !announcer_.pending() || (told_to_leave_ && Clock::now() >= farewell_until_);
  return heard && shown;
}

void Agent::report(Stage stage, int code, const std::string& text) {
  report_.stage = stage;
  report_.code = code;
  report_.text = text;
  if (nodes_) nodes_->report(report_);
}

void Agent::summarize() {
  if (failures_.empty()) return;
  announcer_.print(failure_summary(options_.program, failures_) + "\n");
  const auto own = environment_.find("TORCHELASTIC_ERROR_FILE");
  if (own == environment_.end() || own->second.empty()) return;
  const WorkerFailure& root = root_cause(failures_);
  try {
    write_error_file(own->second, root.error, root.message(), root.when(), root.exit_code);
  } catch (const std::exception& error) {
    announcer_.say(error.what());
  }
}

}  // namespace shampoo::launcher
