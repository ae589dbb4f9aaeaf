// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "distributor/exchange.h"
#include "shampoo/agreement.h"
#include "shampoo/training.h"

namespace shampoo {

/// Takes steps together with the other ranks: what one rank meets, all throw.
class Stepper {
 public:
  Stepper(Backend& backend, Communicator& communicator, const OptimizerOptions& options);

  /// Calls body(), which makes a plan of the caller's input and returns its text, and compares it
  /// with the other ranks'. Collective; throws the same error on all ranks.
  template <typename Body>
  void agree(const Body& body);

  /// Calls body(), which prepares a call that is not a step and returns lines about `subject`, and
  /// compares them with the other ranks'. Collective; throws the same error on all ranks. `call`:
  /// see Header::step.
  template <typename Body>
  std::string vote(std::int64_t call, std::string_view subject, const Body& body);

  /// Calls body(), a collective. Once the communicator has failed, there is no going on.
  template <typename Body>
  void together(const Body& body);

  /// Loads a state. examine() does what can fail and returns lines that are equal on all ranks;
  /// where it succeeded on all of them, replace(statistics) runs, which returns the progress of the
  /// state.
  /// Collective. Steps can then be taken again whatever failed before, but for the communicator.
  template <typename Examine, typename Replace>
  void load(const Examine& examine, const Replace& replace);

  void check_usable() const;
  Progress progress() const { return {attempts_, taken_, refused_in_a_row_}; }

  /// Host work of a step. On several ranks its faults are kept for take(), where all ranks meet.
  template <typename Body>
  void prepare(const Body& body);

  /// The prepared step. Collective.
  StepResult take(Training& training);

  /// Why steps can no longer be taken; empty while they can.
  std::string failure() const { return unusable_ ? unusable_->what() : ""; }

  const Statistics& statistics() const { return statistics_; }
  std::int64_t workspace_bytes() const;

 private:
  template <typename Body>
  void guard(const Body& body);
  void begin_load() const;
  [[noreturn]] void fail_load();
  void finish_load(const Progress& progress);

  kernels::Verdict run(Training& training);
  kernels::Verdict exchange(Training& training, const StepInputs& inputs);
  void obey(const Ruling& ruling, const std::string& call);
  [[noreturn]] void end(const CommunicationError& cause);
  Header header(const Training& training) const;
  Sayings sayings(const Training& training) const;
  kernels::Verdict read_verdict();
  StepResult conclude(Training& training, const kernels::Verdict& outcome);
  void refuse(std::string_view name);

  Backend& backend_;
  Communicator& communicator_;
  OptimizerOptions options_;
  Agreement agreement_;
  kernels::Buffer gradient_scale_, verdict_;
  std::optional<Exchange> vote_;
  Statistics statistics_;
  std::uint64_t plan_hash_ = 0;
  std::int64_t attempts_ = 0;  ///< steps, refused ones included
  std::int64_t taken_ = 0;     ///< steps that were not refused
  int refused_in_a_row_ = 0;
  bool prepared_ = false;
  std::optional<Fault> fault_;  ///< of this rank, which then cannot take the step
  std::optional<Fault> late_;   ///< to be thrown after the step: of this rank, then of all
  Finding finding_ = Finding::none;
  std::optional<CommunicationError> unusable_;  ///< what every call throws from now on
};

/// On one rank what is thrown is thrown at once. On more, a rank with a fault takes part in what
/// follows, so that all ranks can throw it.
template <typename Body>
void Stepper::guard(const Body& body) {
  if (agreement_.alone()) return body();
  if (fault_) return;
  try {
    body();
  } catch (...) {
    fault_ = caught();
  }
}

template <typename Body>
void Stepper::together(const Body& body) {
  try {
    body();
  } catch (const CommunicationError& error) {
    if (!communicator_.failure().empty()) end(error);
    throw;
  }
}

template <typename Body>
void Stepper::agree(const Body& body) {
  check_usable();
  plan_hash_ = Agreement::hash_of(vote(adding_groups, "plan", body));
  prepared_ = false;
}

template <typename Body>
std::string Stepper::vote(std::int64_t call, std::string_view subject, const Body& body) {
  std::string text;
  // A step that was prepared keeps its own fault.
  const std::optional<Fault> prepared = std::exchange(fault_, std::nullopt);
  guard([&] { text = body(); });
  const std::optional<Fault> own = std::exchange(fault_, prepared);
  if (!agreement_.alone())
    together([&] { obey(agreement_.rule_on(call, subject, text, own), ""); });
  return text;
}

template <typename Examine, typename Replace>
void Stepper::load(const Examine& examine, const Replace& replace) {
  begin_load();
  vote(loading_state, "state", examine);
  try {
    finish_load(replace(statistics_));
  } catch (...) {
    fail_load();
  }
}

template <typename Body>
void Stepper::prepare(const Body& body) {
  check_usable();
  fault_.reset();
  guard(body);
  prepared_ = true;
}

}  // namespace shampoo
