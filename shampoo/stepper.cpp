// SPDX-License-Identifier: Apache-2.0
#include "shampoo/stepper.h"

#include <stdexcept>
#include <utility>
#include <vector>

namespace shampoo {

namespace {

// Bits of what a step may have to be able to do.
constexpr std::int32_t queued_refresh = 1, refresh_with_host_steps = 2;

std::int32_t needs_of(const Training& training) {
  return (training.refreshes_queued() ? queued_refresh : 0) |
         (training.host_steps().empty() ? 0 : refresh_with_host_steps);
}

}  // namespace

Stepper::Stepper(Backend& backend, Communicator& communicator, const OptimizerOptions& options)
    : backend_(backend),
      communicator_(communicator),
      options_(options),
      agreement_(backend, communicator),
      gradient_scale_(backend, sizeof(double)),
      report_(backend, communicator.size(), options.agree_before_commit) {
  const double one = 1;
  backend.upload(gradient_scale_.data(), &one, sizeof(one));
  backend.synchronize();
  if (options.agree_before_commit && !agreement_.alone())
    vote_.emplace(backend, communicator,
                  std::vector<std::int64_t>(static_cast<std::size_t>(communicator.size()),
                                            std::int64_t{sizeof(Header)}));
}

bool Stepper::everywhere(std::int64_t call, bool holds) {
  check_usable();
  bool result = false;
  together([&] { result = agreement_.everywhere(call, holds); });
  return result;
}

void Stepper::check_usable() const {
  if (unusable_) throw *unusable_;
}

void Stepper::begin_load() const {
  if (!communicator_.failure().empty()) check_usable();
}

/// The other ranks have gone on.
void Stepper::fail_load() {
  const std::string what = "it could not replace the state: " + caught().message;
  if (!agreement_.alone()) {
    communicator_.abort(what);
    end(CommunicationError(communicator_.failure()));
  }
  unusable_.emplace(what + "; the optimizer can no longer be used");
  throw *unusable_;
}

void Stepper::finish_load(const Progress& progress) {
  attempts_ = progress.attempts;
  taken_ = progress.taken;
  refused_in_a_row_ = progress.refused_in_a_row;
  prepared_ = false;
  fault_.reset();
  late_.reset();
  error_ = nullptr;
  unusable_.reset();
}

void Stepper::begin_prepare() {
  if (backend_.is_capturing())
    throw std::logic_error("prepare_step: cannot be captured; only enqueue_step() can");
  settle();
  throw_error();
  check_usable();
  if (std::exchange(prepared_, false) && captured_)
    throw std::logic_error(
        "prepare_step: no step was enqueued or replayed since the last prepare_step()");
  fault_.reset();
}

void Stepper::finish_prepare(Training& training) {
  training_ = &training;
  write_header(training, attempts_ + 1);
  training.upload();
  prepared_ = true;
}

/// Replays of a step that could not be prepared change nothing.
void Stepper::forbid(Training& training) {
  if (!captured_) return;
  training.admission()[0].permitted = 0;
  training.upload();
}

/// What the step shows the other ranks, and what it may do; a replay reads it, too.
void Stepper::write_header(Training& training, std::int64_t step) {
  ++tickets_;
  training.admission()[0] = {
      .permitted = fault_ ? 0 : 1, .needs = needs_of(training), .ticket = captured_ ? tickets_ : 0};
  if (agreement_.alone()) return;
  Header& header = training.header()[0];
  header = {.step = step,
            .plan = plan_hash_,
            .rates = training.rates_fingerprint(),
            .presence = training.presence_fingerprint(),
            .taken = static_cast<std::int32_t>(taken_)};
  if (fault_) tell(training, Finding::refused);
  if (!fault_ && late_) tell(training, Finding::late);
}

void Stepper::tell(Training& training, Finding finding) {
  Header& header = training.header()[0];
  header.finding = finding;
  if (finding != Finding::late) header.verdict.proceed = 0;
}

StepResult Stepper::take(Training& training) {
  if (backend_.is_capturing()) return capture(training);
  if (!prepared_) settle();
  check_usable();
  ++attempts_;
  if (!std::exchange(prepared_, false)) {
    training_ = &training;
    fault_.reset();
    guard([] {
      throw std::logic_error("enqueue_step: prepare_step() must be called before every step");
    });
    write_header(training, attempts_);
  }
  voted_.reset();
  under_way_ = latest_ = outcomes_.begin(*this);
  const StepResult result(under_way_);
  try {
    together([&] { queue(training, false); });
  } catch (...) {
    under_way_.reset();
    throw;
  }
  if (backend_.is_immediate()) {
    settle();
    throw_error();
  }
  return result;
}

StepResult Stepper::capture(Training& training) {
  check_usable();
  if (!prepared_)
    throw std::logic_error("enqueue_step: prepare_step() must be called before it is captured");
  if (const std::string_view solver = training.host_steps(); !solver.empty())
    throw std::logic_error("enqueue_step: the prepared step recomputes roots by the solver " +
                           std::string(solver) +
                           ", which has host steps and cannot be captured; see refresh_is_due()");
  // A fault of the prepared step is one of its first replay.
  const std::optional<Fault> prepared = std::exchange(fault_, std::nullopt);
  queue(training, true);
  if (const std::optional<Fault> own = std::exchange(fault_, prepared)) {
    prepared_ = false;
    raise(*own);
  }
  captured_ = true;
  const std::shared_ptr<StepOutcome> outcome = outcomes_.begin(*this);
  outcome->error = std::make_exception_ptr(
      std::logic_error("StepResult: the step was captured; latest_result() is that of a replay"));
  return StepResult(outcome);
}

void Stepper::queue(Training& training, bool captures) {
  kernels::Verdict* const verdict = report_.verdict();
  const StepInputs inputs{.gradient_scale = static_cast<const double*>(gradient_scale_.data()),
                          .proceed = &verdict->proceed};
  const std::int32_t offers =
      captures ? needs_of(training) : queued_refresh | refresh_with_host_steps;
  guard([&] {
    training.scan(inputs, options_.non_finite != NonFinite::ignore, verdict);
    backend_.admit(training.admission().data(), offers, report_.runs(), verdict);
  });
  if (fault_) tell(training, Finding::refused);
  if (vote_ && !passes_vote(training)) return;

  const bool computes = may_compute(training);
  if (computes) compute(training, inputs, captures);
  if (!agreement_.alone())
    exchange(training, inputs);
  else if (computes)
    training.apply(inputs);
  if (captures)
    report_.send_captured();
  else
    report_.send();
}

/// Whether the host goes on with the step, as far as it knows.
bool Stepper::passes_vote(Training& training) {
  training.upload();
  vote_->write(training.header().data(), report_.verdict(), fault_ ? 0 : sizeof(kernels::Verdict));
  vote_->run();
  vote_->gate(false, report_.headers(Round::vote), &report_.verdict()->proceed);
  if (!backend_.is_immediate()) return true;
  report_.send();
  report_.wait();
  return passes(vote_ruling());
}

bool Stepper::may_compute(Training& training) {
  bool proceeds = !fault_;
  // Host steps must not happen in a refused step.
  if (proceeds && !training.host_steps().empty())
    guard([&] {
      report_.send();
      report_.wait();
      proceeds = report_.seen_verdict().proceed != 0;
    });
  return proceeds;
}

void Stepper::compute(Training& training, const StepInputs& inputs, bool captures) {
  const Refreshing captured = training.refreshes_queued() ? Refreshing::fixed : Refreshing::none;
  guard([&] {
    training.compute(inputs, captures ? captured : Refreshing::due, statistics_);
    if (captures) return;
    if (backend_.is_immediate() && training.refreshes_queued()) {
      report_.send();
      if (report_.seen_verdict().proceed != 0) training.collect(statistics_);
    }
    if (std::string exhausted = training.exhausted_block(); !exhausted.empty())
      late_ = Fault{Fault::Kind::numerical, std::move(exhausted)};
  });
  if (fault_)
    tell(training, Finding::broken);
  else if (late_)
    tell(training, Finding::late);
}

void Stepper::exchange(Training& training, const StepInputs& inputs) {
  training.upload();  // what was found since the step was prepared
  Exchange& exchange = training.exchange();
  // Ranks that have voted may have gradients that differ.
  const std::size_t common = vote_ ? sizeof(kernels::Verdict::proceed) : sizeof(kernels::Verdict);
  exchange.write(training.header().data(), report_.verdict(), fault_ ? 0 : common);
  exchange.run();
  exchange.gate(true, report_.headers(Round::exchange), &report_.verdict()->proceed);
  try {
    training.apply(inputs);
  } catch (...) {  // the others apply the step
    communicator_.abort("it could not apply a step: " + caught().message);
    end(CommunicationError(communicator_.failure()));
  }
}

std::int64_t Stepper::workspace_bytes() const {
  return static_cast<std::int64_t>(gradient_scale_.bytes()) + report_.bytes() +
         (vote_ ? vote_->bytes() : 0);
}

}  // namespace shampoo
