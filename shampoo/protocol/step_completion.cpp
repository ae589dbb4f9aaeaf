// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

void StepProtocol::wait_for_previous() {
  if (backend_.is_capturing() || (!pending_ && !await_replay())) return;
  const std::shared_ptr<StepOutcome> outcome = std::exchange(pending_, nullptr);
  try {
    complete(*outcome);
  } catch (...) {
    unreported_error_ = outcome->error = std::current_exception();
  }
  outcome->known = true;
}

/// How often the report of a replay is looked for: nothing else says that it has run while more is
/// queued behind it, and a thread that does not sleep would take a processor.
constexpr std::chrono::microseconds poll_interval(20);

/// Returns true if the prepared step was replayed, after it has run. An idle queue without a new
/// completed run means that it was not replayed.
bool StepProtocol::await_replay() {
  if (!captured_ || !prepared_) return false;
  for (bool idle = false; report_.completed_runs() <= replays_.count;) {
    if (idle) return false;
    idle = backend_.is_idle();
    if (!idle) std::this_thread::sleep_for(poll_interval);
  }
  prepared_ = false;
  admitted_ = true;
  ++attempts_;
  voted_.reset();
  pending_ = latest_ = outcomes_.begin(*this);
  return true;
}

StepResult StepProtocol::latest_result() {
  wait_for_previous();
  if (!latest_) throw std::logic_error("latest_result: no step was enqueued or replayed");
  return StepResult(latest_);
}

void StepProtocol::mark_reported(const std::exception_ptr& error) {
  if (unreported_error_ == error) unreported_error_ = nullptr;
}

void StepProtocol::throw_error() {
  if (unreported_error_) std::rethrow_exception(std::exchange(unreported_error_, nullptr));
}

/// The exception being handled escaped the collectives of a call.
void StepProtocol::fail_collective(std::int64_t call) {
  try {
    throw;
  } catch (const CommunicationError& error) {
    if (!communicator_.failure().empty()) disable_by(error);
    throw;
  } catch (...) {
    if (consensus_.alone()) throw;
    communicator_.abort("it could not take part in " + call_text(call) + ": " +
                        current_error().message);
    if (unusable_) throw;
    disable_by(CommunicationError(communicator_.failure()));
  }
}

/// Every further call throws it.
void StepProtocol::disable(const std::string& what, std::vector<int> missing_ranks) {
  unusable_.emplace(what + "; the optimizer can no longer be used", std::move(missing_ranks));
}

void StepProtocol::disable_by(const CommunicationError& cause) {
  if (unusable_ && std::string_view(cause.what()) == unusable_->what()) throw *unusable_;
  disable((attempts_ > 0 ? "step " + std::to_string(attempts_) + ": " : "") + cause.what(),
          cause.missing_ranks());
  throw *unusable_;
}

/// A repeated replay changes nothing, but overwrites the report of the first one.
void StepProtocol::check_replays() {
  const kernels::ReplayCounter before = std::exchange(replays_, report_.seen_runs());
  const bool repeated = replays_.repeated != before.repeated || replays_.count > before.count + 1;
  if (captured_ && repeated)
    throw_if_failed(
        {.error = TransferableError{TransferableError::Kind::logic,
                                    "it was replayed more than once after prepare_step()"},
         .diverged = true},
        "step " + std::to_string(attempts_) + ": ");
}

void StepProtocol::complete(StepOutcome& outcome) {
  StepDecision decision;
  in_collective(attempts_, [&] {
    report_.wait();
    // Errors of collectives on a stream are known only now.
    if (!backend_.is_immediate()) communicator_.check();
    check_replays();
    decision = decide();
  });
  if (decision.error && !decision.after_apply && admitted_)
    report_.set_gradients(gradients_.taken_back(report_.seen_gradients()));
  if (!decision.after_apply) throw_if_failed(decision, "step " + std::to_string(attempts_) + ": ");
  std::optional<TransferableError> now = std::exchange(deferred_error_, std::nullopt);
  if (!consensus_.alone()) now = std::move(decision.error);

  describe_gradients(decision, outcome);
  engine_->clock().read(attempts_, outcome.applied);
  if (!outcome.applied) {
    deferred_error_ = std::move(now);
    return count_skipped(outcome.non_finite_gradient);
  }
  outcome.non_finite_direction = engine_->name(decision.non_finite_direction);
  ++statistics_.applied_steps;
  statistics_.clipped_steps += outcome.clip_factor < 1;
  statistics_.non_finite_directions += report_.seen_directions().blocks;
  ++taken_;
  skipped_in_a_row_ = 0;
  values_compared_ = true;
  in_collective(attempts_, [&] { collect_refresh(); });
  engine_->count_step();
  if (!now && consensus_.alone()) now = std::exchange(deferred_error_, std::nullopt);
  if (now) rethrow(*now);
}

void StepProtocol::describe_gradients(const StepDecision& decision, StepOutcome& outcome) {
  const kernels::GradientState& gradients = report_.seen_gradients();
  outcome.applied = decision.scan.proceed != 0;
  outcome.non_finite_gradient = engine_->name(decision.scan.first_bad);
  outcome.absent_gradients = engine_->absent_gradients();
  outcome.gradient_norm = std::sqrt(decision.scan.squared_norm);
  outcome.clip_factor = gradients.clip_factor;
  outcome.loss_scale = gradients.before.scale;
  outcome.spike = gradients.outlier != 0;
  unscaled_ = false;
}

/// Collects the results of a queued refresh. The other ranks receive an error in the next step.
void StepProtocol::collect_refresh() {
  if (backend_.is_immediate() || !engine_->queues_refresh()) return;
  engine_->collect(statistics_);
  defer_exhaustion(*engine_);
}

/// A block whose refreshes kept failing is an error after the step.
void StepProtocol::defer_exhaustion(Engine& engine) {
  if (std::string exhausted = engine.exhausted_block(); !exhausted.empty())
    deferred_error_ = TransferableError{TransferableError::Kind::numerical, std::move(exhausted)};
}

StepDecision StepProtocol::decide() {
  const kernels::ScanResult& seen = report_.seen_scan();
  if (consensus_.alone()) {
    StepDecision decision{.scan = seen,
                          .non_finite_direction = report_.seen_directions().first_tensor};
    if (seen.first_bad == kernels::needs_refresh)
      decision.error = {TransferableError::Kind::logic, missing_refresh_text};
    return decision;
  }
  if (vote_ && !passes(vote_decision())) return vote_decision();
  StepDecision decision =
      consensus_.decide(report_.seen_headers(Round::exchange),
                        step_error_ ? step_error_ : deferred_error_, diagnostics(), false);
  // The headers may differ in bytes that Consensus::decide() does not compare.
  if (passes(decision) && seen.proceed == 0) {
    decision.error = {TransferableError::Kind::communication,
                      "the ranks do not have the same headers"};
    decision.after_apply = false;
    decision.diverged = true;
  }
  return decision;
}

const StepDecision& StepProtocol::vote_decision() {
  if (!voted_)
    voted_ = consensus_.decide(report_.seen_headers(Round::vote),
                               step_error_ ? step_error_ : deferred_error_, diagnostics(), true);
  return *voted_;
}

/// Returns true if the step was applied.
bool StepProtocol::passes(const StepDecision& decision) {
  return decision.scan.proceed != 0 && (!decision.error || decision.after_apply);
}

/// Throws the error of the decision, the same on all ranks.
void StepProtocol::throw_if_failed(const StepDecision& decision, const std::string& call) {
  if (!decision.error) return;
  TransferableError common = *decision.error;
  common.message = call + common.message;
  if (decision.diverged) {
    disable(common.message);
    common.message = unusable_->what();
  }
  rethrow(common);
}

Diagnostics StepProtocol::diagnostics() const {
  return {.plan = [this] { return plan_text(backend_, options_, *engine_); },
          .rates = [this] { return rates_text(engine_->groups()); },
          .presence = [this] { return tensors_text(engine_->parameters(), value_norms_); },
          .name = [this](int row) { return engine_->name(row); }};
}

}  // namespace shampoo
