// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <stdexcept>
#include <thread>
#include <utility>

#include "kernels/error.h"
#include "shampoo/stepper.h"

namespace shampoo {

void Stepper::settle() {
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
bool Stepper::await_replay() {
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

StepResult Stepper::latest_result() {
  settle();
  if (!latest_) throw std::logic_error("latest_result: no step was enqueued or replayed");
  return StepResult(latest_);
}

void Stepper::told(const std::exception_ptr& error) {
  if (error_ == error) error_ = nullptr;
}

void Stepper::throw_error() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void Stepper::end(const CommunicationError& cause) {
  unusable_.emplace((attempts_ > 0 ? "step " + std::to_string(attempts_) + ": " : "") +
                        cause.what() + "; the optimizer can no longer be used",
                    cause.missing_ranks());
  throw *unusable_;
}

/// A step that was replayed again has changed nothing, but it has overwritten what it reports.
void Stepper::check_runs() {
  const kernels::Runs before = std::exchange(runs_, report_.seen_runs());
  const bool repeated = runs_.repeated != before.repeated || runs_.count > before.count + 1;
  if (captured_ && repeated)
    obey({.fault = Fault{Fault::Kind::logic, "it was replayed more than once after prepare_step()"},
          .spoiled = true},
         "step " + std::to_string(attempts_) + ": ");
}

void Stepper::conclude(StepOutcome& outcome) {
  // What a collective on a stream met is known only now.
  if (!backend_.is_immediate() && !communicator_.failure().empty())
    throw CommunicationError(communicator_.failure());
  check_runs();
  Ruling ruling = rule();
  if (!ruling.after_step) obey(ruling, "step " + std::to_string(attempts_) + ": ");
  std::optional<Fault> now = std::exchange(late_, std::nullopt);
  if (!agreement_.alone()) now = std::move(ruling.fault);

  const std::string_view bad = training_->name(ruling.verdict.first_bad);
  outcome.applied = ruling.verdict.proceed != 0;
  outcome.non_finite_gradient = bad;
  outcome.gradient_norm = std::sqrt(ruling.verdict.squared_norm);
  if (!outcome.applied) {
    late_ = std::move(now);
    return refuse(bad);
  }
  ++statistics_.applied_steps;
  ++taken_;
  refused_in_a_row_ = 0;
  collect();
  training_->count_step();
  if (!now && agreement_.alone()) now = std::exchange(late_, std::nullopt);
  if (now) raise(*now);
}

/// What came of a refresh that was queued. On several ranks the others hear of it in the next step.
void Stepper::collect() {
  if (backend_.is_immediate() || !training_->refreshes_queued()) return;
  training_->collect(statistics_);
  if (std::string exhausted = training_->exhausted_block(); !exhausted.empty())
    late_ = Fault{Fault::Kind::numerical, std::move(exhausted)};
}

Ruling Stepper::rule() {
  const kernels::Verdict& seen = report_.seen_verdict();
  if (agreement_.alone()) {
    Ruling ruling{.verdict = seen};
    if (seen.first_bad == kernels::unfit_step) ruling.fault = {Fault::Kind::logic, unfit_text};
    return ruling;
  }
  if (vote_ && !passes(vote_ruling())) return vote_ruling();
  Ruling ruling = agreement_.rule(report_.seen_headers(Round::exchange), fault_ ? fault_ : late_,
                                  sayings(), false);
  if (vote_ && !ruling.fault) ruling.verdict = seen;
  if (passes(ruling) && seen.proceed == 0) {  // bytes of the headers that no rule looks at
    ruling.fault = {Fault::Kind::communication, "the ranks do not have the same headers"};
    ruling.after_step = false;
    ruling.spoiled = true;
  }
  return ruling;
}

const Ruling& Stepper::vote_ruling() {
  if (!voted_)
    voted_ = agreement_.rule(report_.seen_headers(Round::vote), fault_ ? fault_ : late_, sayings(),
                             true);
  return *voted_;
}

/// Whether the step was applied.
bool Stepper::passes(const Ruling& ruling) {
  return ruling.verdict.proceed != 0 && (!ruling.fault || ruling.after_step);
}

/// Throws what all ranks throw.
void Stepper::obey(const Ruling& ruling, const std::string& call) {
  if (!ruling.fault) return;
  Fault common = *ruling.fault;
  common.message = call + common.message;
  if (ruling.spoiled) {
    common.message += "; the optimizer can no longer be used";
    unusable_.emplace(common.message);
  }
  raise(common);
}

void Stepper::refuse(std::string_view name) {
  ++statistics_.refused_steps;
  ++refused_in_a_row_;
  const auto what = [&] {
    return "parameter '" + std::string(name) + "': its gradient is not finite; ";
  };
  if (options_.non_finite == NonFinite::error)
    throw NumericalError(what() + "the step was refused and nothing changed");
  if (refused_in_a_row_ >= options_.refused_in_a_row)
    throw NumericalError(what() + std::to_string(refused_in_a_row_) +
                         " steps in a row were refused, and nothing changed in them");
}

Sayings Stepper::sayings() const {
  return {.plan = [this] { return training_->plan_text(options_); },
          .rates = [this] { return training_->rates_text(); },
          .presence = [this] { return training_->presence_text(); },
          .name = [this](int row) { return training_->name(row); }};
}

}  // namespace shampoo
