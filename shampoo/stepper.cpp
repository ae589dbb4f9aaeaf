// SPDX-License-Identifier: Apache-2.0
#include "shampoo/stepper.h"

#include <cmath>
#include <stdexcept>
#include <utility>
#include <vector>

#include "kernels/error.h"

namespace shampoo {

Stepper::Stepper(Backend& backend, Communicator& communicator, const OptimizerOptions& options)
    : backend_(backend),
      communicator_(communicator),
      options_(options),
      agreement_(backend, communicator),
      gradient_scale_(backend, sizeof(double)),
      verdict_(backend, sizeof(kernels::Verdict)) {
  const double one = 1;
  backend.upload(gradient_scale_.data(), &one, sizeof(one));
  backend.synchronize();
  if (options.agree_before_commit && !agreement_.alone())
    vote_.emplace(backend, communicator,
                  std::vector<std::int64_t>(static_cast<std::size_t>(communicator.size()),
                                            std::int64_t{sizeof(Header)}));
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
  unusable_.reset();
}

void Stepper::end(const CommunicationError& cause) {
  unusable_.emplace((attempts_ > 0 ? "step " + std::to_string(attempts_) + ": " : "") +
                        cause.what() + "; the optimizer can no longer be used",
                    cause.missing_ranks());
  throw *unusable_;
}

StepResult Stepper::take(Training& training) {
  check_usable();
  ++attempts_;
  guard([&] {
    if (!prepared_)
      throw std::logic_error("enqueue_step: prepare_step() must be called before every step");
  });
  prepared_ = false;
  finding_ = Finding::none;
  late_.reset();
  kernels::Verdict outcome;
  together([&] { outcome = run(training); });
  return conclude(training, outcome);
}

kernels::Verdict Stepper::run(Training& training) {
  kernels::Verdict* const verdict = static_cast<kernels::Verdict*>(verdict_.data());
  const StepInputs inputs{.gradient_scale = static_cast<const double*>(gradient_scale_.data()),
                          .proceed = &verdict->proceed};
  guard([&] { training.scan(inputs, options_.non_finite != NonFinite::ignore, verdict); });
  if (fault_) finding_ = Finding::refused;
  bool goes_on = !fault_;
  if (vote_) {
    vote_->write(header(training), fault_ ? nullptr : verdict);
    vote_->run();
    const Ruling ruling = agreement_.rule(vote_->headers(), fault_, sayings(training), true);
    obey(ruling, "step " + std::to_string(attempts_) + ": ");
    if (!ruling.verdict.proceed) return ruling.verdict;
  } else if (goes_on && training.refreshes()) {
    // A refresh has host steps, which must not happen in a refused step.
    guard([&] { goes_on = read_verdict().proceed != 0; });
  }
  if (goes_on) {
    guard([&] {
      training.compute(inputs, statistics_);
      if (std::string exhausted = training.exhausted_block(); !exhausted.empty())
        late_ = Fault{Fault::Kind::numerical, std::move(exhausted)};
    });
    if (fault_) finding_ = Finding::broken;
    if (late_) finding_ = Finding::late;
  }
  if (!agreement_.alone()) return exchange(training, inputs);
  if (goes_on) training.apply(inputs);
  return read_verdict();
}

kernels::Verdict Stepper::exchange(Training& training, const StepInputs& inputs) {
  const auto* const verdict = static_cast<const kernels::Verdict*>(verdict_.data());
  // Ranks that have voted may have gradients that differ.
  const std::span<const Header> headers =
      training.exchange(header(training), fault_ || vote_ ? nullptr : verdict);
  Ruling ruling = agreement_.rule(headers, fault_ ? fault_ : late_, sayings(training), false);
  if (!ruling.after_step) obey(ruling, "step " + std::to_string(attempts_) + ": ");
  late_ = std::move(ruling.fault);
  if (!ruling.verdict.proceed) return ruling.verdict;
  try {
    training.apply(inputs);
    return vote_ ? read_verdict() : ruling.verdict;
  } catch (...) {  // the others have applied the step
    communicator_.abort("it could not apply a step: " + caught().message);
    end(CommunicationError(communicator_.failure()));
  }
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

Header Stepper::header(const Training& training) const {
  Header header;
  header.step = attempts_;
  header.plan = plan_hash_;
  header.finding = finding_;
  header.taken = static_cast<std::int32_t>(taken_);
  header.rates = training.rates_fingerprint();
  header.presence = training.presence_fingerprint();
  return header;
}

Sayings Stepper::sayings(const Training& training) const {
  return {.plan = [&] { return training.plan_text(options_); },
          .rates = [&] { return training.rates_text(); },
          .presence = [&] { return training.presence_text(); },
          .name = [&](int row) { return training.name(row); }};
}

kernels::Verdict Stepper::read_verdict() {
  kernels::Verdict outcome;
  backend_.download(&outcome, verdict_.data(), sizeof(outcome));
  backend_.synchronize();
  return outcome;
}

StepResult Stepper::conclude(Training& training, const kernels::Verdict& outcome) {
  const std::string_view bad = training.name(outcome.first_bad);
  const StepResult result(outcome.proceed != 0, bad, std::sqrt(outcome.squared_norm));
  if (!result.applied()) {
    refuse(bad);
    return result;
  }
  ++statistics_.applied_steps;
  ++taken_;
  refused_in_a_row_ = 0;
  training.count_step();
  if (late_) raise(*late_);
  return result;
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

std::int64_t Stepper::workspace_bytes() const {
  return static_cast<std::int64_t>(gradient_scale_.bytes() + verdict_.bytes()) +
         (vote_ ? vote_->bytes() : 0);
}

}  // namespace shampoo
