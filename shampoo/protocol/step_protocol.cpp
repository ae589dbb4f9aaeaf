// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/step_protocol.h"

#include <stdexcept>
#include <utility>
#include <vector>

#include "shampoo/protocol/diagnostics.h"

namespace shampoo {

namespace {

// Bits of StepPermit::needs.
constexpr std::int32_t queued_refresh = 1, refresh_with_host_steps = 2, large_refresh = 4;
constexpr std::int32_t all_refreshes = queued_refresh | refresh_with_host_steps | large_refresh;

std::int32_t needs_of(const Engine& engine) {
  return (engine.queues_refresh() ? queued_refresh : 0) |
         (engine.waiting_solver().empty() ? 0 : refresh_with_host_steps) |
         (engine.exceeds_usual() ? large_refresh : 0);
}

/// What a step refreshes that is captured where the prepared one has these needs.
Refreshing captured_refresh(std::int32_t needs) {
  if ((needs & large_refresh) != 0) return Refreshing::all;
  return (needs & queued_refresh) != 0 ? Refreshing::usual : Refreshing::none;
}

/// True while it lives.
class Marked {
 public:
  explicit Marked(bool& mark) : mark_(mark) { mark_ = true; }
  ~Marked() { mark_ = false; }
  Marked(const Marked&) = delete;
  Marked& operator=(const Marked&) = delete;

 private:
  bool& mark_;
};

}  // namespace

StepProtocol::StepProtocol(kernels::Backend& backend, Communicator& communicator,
                           const OptimizerOptions& options)
    : backend_(backend),
      communicator_(communicator),
      options_(options),
      consensus_(backend, communicator),
      report_(backend, communicator.size(), options.agree_before_commit),
      gradients_(backend, options.gradients, &report_.records()->gradients) {
  report_.set_gradients(gradients_.load({}));
  if (options.agree_before_commit) vote_ = consensus_.headers();
}

void StepProtocol::check_usable() const {
  if (unusable_) throw *unusable_;
}

void StepProtocol::check_communicator() const {
  if (!communicator_.failure().empty()) check_usable();
}

void StepProtocol::begin_prepare() {
  if (backend_.is_capturing())
    throw std::logic_error("prepare_step: cannot be captured; only enqueue_step() can");
  wait_for_previous();
  rejoin();
  throw_error();
  check_usable();
  if (std::exchange(prepared_, false) && captured_)
    throw std::logic_error(
        "prepare_step: no step was enqueued or replayed since the last prepare_step()");
  step_error_.reset();
}

void StepProtocol::finish_prepare(Engine& engine) {
  engine_ = &engine;
  compare_values(engine);
  write_header(engine, attempts_ + 1);
  try {
    engine.upload();
  } catch (...) {
    if (consensus_.alone()) throw;
    if (!step_error_) step_error_ = current_error();
    set_status(engine, RankStatus::skipped);
  }
  prepared_ = true;
}

/// Makes the header say what the values are, where this step compares them.
void StepProtocol::compare_values(Engine& engine) {
  const std::int64_t every = options_.compare_values_every;
  value_norms_.clear();
  if (consensus_.alone() || (values_compared_ && (every == 0 || attempts_ % every != 0))) return;
  capture_error([&] { value_norms_ = engine.value_norms(); });
}

/// Replays must not change anything after a failed preparation.
void StepProtocol::disable_replay(Engine& engine) {
  if (!captured_) return;
  engine.permit()[0].permitted = 0;
  engine.upload();
}

/// Writes this rank's header and the step's permit, which replays read as well.
void StepProtocol::write_header(Engine& engine, std::int64_t step) {
  ++generation_;
  engine.permit()[0] = {.permitted = step_error_ ? 0 : 1,
                        .needs = needs_of(engine),
                        .generation = captured_ ? generation_ : 0};
  if (consensus_.alone()) return;
  SegmentHeader& header = engine.header()[0];
  header = {.taken = static_cast<std::int32_t>(taken_),
            .step = step,
            .plan = plan_hash_,
            .rates = rates_hash(engine.groups()),
            .presence = tensors_hash(engine.parameters(), value_norms_)};
  if (step_error_) set_status(engine, RankStatus::skipped);
  if (!step_error_ && deferred_error_) set_status(engine, RankStatus::deferred_error);
}

void StepProtocol::set_status(Engine& engine, RankStatus status) {
  SegmentHeader& header = engine.header()[0];
  header.status = status;
  if (status != RankStatus::deferred_error) header.scan.proceed = 0;
}

StepResult StepProtocol::take(Engine& engine) {
  require_outside_transform();
  if (backend_.is_capturing()) return capture(engine);
  if (!prepared_) wait_for_previous();
  check_usable();
  if (!std::exchange(prepared_, false)) {
    engine_ = &engine;
    step_error_.reset();
    capture_error([&] {
      require_training("step");
      throw std::logic_error("enqueue_step: prepare_step() must be called before every step");
    });
    write_header(engine, attempts_ + 1);
  }
  ++attempts_;
  voted_.reset();
  const std::shared_ptr<StepOutcome> outcome = outcomes_.begin(*this);
  try {
    in_collective(attempts_, [&] { queue(engine, false); });
  } catch (...) {
    fail_queueing(*(latest_ = outcome));
    throw;
  }
  pending_ = latest_ = outcome;
  const StepResult result(outcome);
  if (backend_.is_immediate()) {
    wait_for_previous();
    throw_error();
  }
  return result;
}

/// The exception being handled ended a step. On one rank some blocks may have taken it, which
/// nothing takes back; on several it came from a collective.
void StepProtocol::fail_queueing(StepOutcome& outcome) {
  outcome.error = std::current_exception();
  outcome.known = true;
  if (consensus_.alone() && admitted_)
    disable("step " + std::to_string(attempts_) + ": " + current_error().message);
}

StepResult StepProtocol::capture(Engine& engine) {
  check_usable();
  if (!prepared_)
    throw std::logic_error("enqueue_step: prepare_step() must be called before it is captured");
  if (const std::string_view solver = engine.waiting_solver(); !solver.empty())
    throw std::logic_error(
        "enqueue_step: the prepared step refreshes with the solver " + std::string(solver) +
        ", which has host steps and cannot be captured; see refresh_has_host_steps()");
  // An error of the preparation belongs to the first replay.
  const std::optional<TransferableError> prepared = std::exchange(step_error_, std::nullopt);
  queue(engine, true);
  if (const std::optional<TransferableError> own = std::exchange(step_error_, prepared)) {
    prepared_ = false;
    rethrow(*own);
  }
  captured_ = true;
  const std::shared_ptr<StepOutcome> outcome = outcomes_.begin(*this);
  outcome->error = std::make_exception_ptr(
      std::logic_error("StepResult: the step was captured; latest_result() is that of a replay"));
  return StepResult(outcome);
}

void StepProtocol::queue(Engine& engine, bool captures) {
  kernels::ScanResult* const scan = report_.scan();
  StepInputs inputs{.gradient_scale = gradients_.scale(),
                    .gradient_limit = gradients_.value_limit(),
                    .proceed = &scan->proceed,
                    .non_finite_directions = report_.directions()};
  const std::int32_t offers = captures ? needs_of(engine) : all_refreshes;
  StepClock& clock = engine.clock();
  admitted_ = false;
  capture_error([&] {
    clock.begin_step();
    const bool skips = options_.non_finite != NonFinite::ignore || gradients_.skips_overflows();
    engine.scan(gradients_.scan_scale(), skips, scan);
    backend_.admit(engine.permit().data(), offers, gradients_.rules(), report_.records());
    admitted_ = true;
    if (const auto most = gradients_.max_parameter_norm()) engine.clip_parameters(*most, inputs);
  });
  if (step_error_) set_status(engine, RankStatus::skipped);
  if (vote_ && !passes_vote(engine)) return;

  if (may_compute(engine)) {
    const Refreshing refreshing = captures ? captured_refresh(offers) : Refreshing::due;
    capture_error([&] {
      const Marked computing(computing_);
      engine.compute(inputs, refreshing, statistics_);
    });
    finish_compute(engine, captures);
  }
  if (!consensus_.alone()) exchange(engine);
  clock.end_step();
  if (captures)
    report_.send_captured();
  else
    report_.send();
}

void StepProtocol::run(Engine& engine, Phase phase, Exchange& exchange) {
  const PhaseRange range(engine.clock(), phase);
  exchange.run();
}

/// Returns false if the host knows that the step is skipped.
bool StepProtocol::passes_vote(Engine& engine) {
  engine.upload();
  vote_->write(engine.header().data(), step_error_ ? nullptr : report_.scan());
  run(engine, Phase::vote, *vote_);
  vote_->gate(report_.headers(Round::vote), &report_.scan()->proceed);
  if (!backend_.is_immediate()) return true;
  engine.clock().end_step();  // of a step that is skipped
  report_.send();
  report_.wait();
  return passes(vote_decision());
}

bool StepProtocol::may_compute(Engine& engine) {
  bool proceeds = !step_error_;
  // A skipped step must not run host steps.
  if (proceeds && !engine.waiting_solver().empty())
    capture_error([&] {
      report_.send();
      report_.wait();
      proceeds = report_.seen_scan().proceed != 0;
    });
  return proceeds;
}

/// Counts the outcomes of a refresh that has run, and sets this rank's status.
void StepProtocol::finish_compute(Engine& engine, bool captures) {
  capture_error([&] {
    if (captures || step_error_) return;
    if (backend_.is_immediate() && engine.queues_refresh()) {
      report_.send();
      if (report_.seen_scan().proceed != 0) engine.collect(statistics_);
    }
    defer_exhaustion(engine);
  });
  if (step_error_)
    set_status(engine, RankStatus::failed);
  else if (deferred_error_)
    set_status(engine, RankStatus::deferred_error);
}

void StepProtocol::exchange(Engine& engine) {
  engine.upload();  // the status may have changed since prepare()
  Exchange& exchange = engine.exchange();
  exchange.write(engine.header().data(), step_error_ ? nullptr : report_.scan());
  exchange.write_direction(&report_.directions()->first_tensor);
  run(engine, Phase::exchange, exchange);
  exchange.gate(report_.headers(Round::exchange), &report_.scan()->proceed);
  engine.apply(&report_.scan()->proceed);
}

std::int64_t StepProtocol::workspace_bytes() const {
  return gradients_.bytes() + report_.bytes() + consensus_.workspace_bytes() +
         (evaluation_ ? evaluation_->bytes() : 0);
}

}  // namespace shampoo
