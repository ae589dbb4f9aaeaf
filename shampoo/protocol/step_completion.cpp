// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "kernels/error.h"
#include "shampoo/protocol/step_protocol.h"

namespace shampoo {

void StepProtocol::settle() {
  if (backend_.is_capturing() || (!under_way_ && !await_replay())) return;
  report_.wait();
  const std::shared_ptr<StepOutcome> outcome = std::exchange(under_way_, nullptr);
  try {
    together([&] { conclude(*outcome); });
  } catch (...) {
    error_ = outcome->error = std::current_exception();
  }
  outcome->known = true;
}

/// Whether the prepared step was replayed; waits until it has run. The queue being idle and nothing
/// having arrived says that it was not.
bool StepProtocol::await_replay() {
  if (!captured_ || !prepared_) return false;
  for (bool idle = false; report_.arrived() <= runs_.count; std::this_thread::yield()) {
    if (idle) return false;
    idle = backend_.is_idle();
  }
  prepared_ = false;
  ++attempts_;
  voted_.reset();
  under_way_ = latest_ = outcomes_.begin(*this);
  return true;
}

StepResult StepProtocol::latest_result() {
  settle();
  if (!latest_) throw std::logic_error("latest_result: no step was enqueued or replayed");
  return StepResult(latest_);
}

void StepProtocol::told(const std::exception_ptr& error) {
  if (error_ == error) error_ = nullptr;
}

void StepProtocol::throw_error() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void StepProtocol::end(const CommunicationError& cause) {
  unusable_.emplace((attempts_ > 0 ? "step " + std::to_string(attempts_) + ": " : "") +
                        cause.what() + "; the optimizer can no longer be used",
                    cause.missing_ranks());
  throw *unusable_;
}

/// A step that was replayed again has changed nothing, but it has overwritten what it reports.
void StepProtocol::check_runs() {
  const kernels::ReplayCounter before = std::exchange(runs_, report_.seen_runs());
  const bool repeated = runs_.repeated != before.repeated || runs_.count > before.count + 1;
  if (captured_ && repeated)
    throw_if_failed(
        {.fault = TransferableError{TransferableError::Kind::logic,
                                    "it was replayed more than once after prepare_step()"},
         .diverged = true},
        "step " + std::to_string(attempts_) + ": ");
}

void StepProtocol::conclude(StepOutcome& outcome) {
  // What a collective on a stream met is known only now.
  if (!backend_.is_immediate() && !communicator_.failure().empty())
    throw CommunicationError(communicator_.failure());
  check_runs();
  StepDecision decision = decide();
  if (!decision.after_apply) throw_if_failed(decision, "step " + std::to_string(attempts_) + ": ");
  std::optional<TransferableError> now = std::exchange(late_, std::nullopt);
  if (!consensus_.alone()) now = std::move(decision.fault);

  const std::string_view bad = engine_->name(decision.verdict.first_bad);
  outcome.applied = decision.verdict.proceed != 0;
  outcome.non_finite_gradient = bad;
  outcome.gradient_norm = std::sqrt(decision.verdict.squared_norm);
  if (!outcome.applied) {
    late_ = std::move(now);
    return refuse(bad);
  }
  ++statistics_.applied_steps;
  ++taken_;
  skipped_in_a_row_ = 0;
  collect();
  engine_->count_step();
  if (!now && consensus_.alone()) now = std::exchange(late_, std::nullopt);
  if (now) rethrow(*now);
}

/// What came of a refresh that was queued. On several ranks the others hear of it in the next step.
void StepProtocol::collect() {
  if (backend_.is_immediate() || !engine_->queues_refresh()) return;
  engine_->collect(statistics_);
  if (std::string exhausted = engine_->exhausted_block(); !exhausted.empty())
    late_ = TransferableError{TransferableError::Kind::numerical, std::move(exhausted)};
}

StepDecision StepProtocol::decide() {
  const kernels::ScanResult& seen = report_.seen_verdict();
  if (consensus_.alone()) {
    StepDecision decision{.verdict = seen};
    if (seen.first_bad == kernels::needs_refresh)
      decision.fault = {TransferableError::Kind::logic, unfit_text};
    return decision;
  }
  if (vote_ && !passes(vote_decision())) return vote_decision();
  StepDecision decision = consensus_.decide(report_.seen_headers(Round::exchange),
                                            fault_ ? fault_ : late_, diagnostics(), false);
  if (vote_ && !decision.fault) decision.verdict = seen;
  if (passes(decision) && seen.proceed == 0) {  // bytes of the headers that no rule looks at
    decision.fault = {TransferableError::Kind::communication,
                      "the ranks do not have the same headers"};
    decision.after_apply = false;
    decision.diverged = true;
  }
  return decision;
}

const StepDecision& StepProtocol::vote_decision() {
  if (!voted_)
    voted_ = consensus_.decide(report_.seen_headers(Round::vote), fault_ ? fault_ : late_,
                               diagnostics(), true);
  return *voted_;
}

/// Whether the step was applied.
bool StepProtocol::passes(const StepDecision& decision) {
  return decision.verdict.proceed != 0 && (!decision.fault || decision.after_apply);
}

/// Throws what all ranks throw.
void StepProtocol::throw_if_failed(const StepDecision& decision, const std::string& call) {
  if (!decision.fault) return;
  TransferableError common = *decision.fault;
  common.message = call + common.message;
  if (decision.diverged) {
    common.message += "; the optimizer can no longer be used";
    unusable_.emplace(common.message);
  }
  rethrow(common);
}

void StepProtocol::refuse(std::string_view name) {
  ++statistics_.skipped_steps;
  ++skipped_in_a_row_;
  const auto what = [&] {
    return "parameter '" + std::string(name) + "': its gradient is not finite; ";
  };
  if (options_.non_finite == NonFinite::error)
    throw NumericalError(what() + "the step was refused and nothing changed");
  if (skipped_in_a_row_ >= options_.skipped_in_a_row)
    throw NumericalError(what() + std::to_string(skipped_in_a_row_) +
                         " steps in a row were refused, and nothing changed in them");
}

Diagnostics StepProtocol::diagnostics() const {
  return {.plan = [this] { return engine_->plan_text(options_); },
          .rates = [this] { return engine_->rates_text(); },
          .presence = [this] { return engine_->presence_text(); },
          .name = [this](int row) { return engine_->name(row); }};
}

}  // namespace shampoo
