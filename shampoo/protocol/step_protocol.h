// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "distributor/exchange.h"
#include "shampoo/protocol/consensus.h"
#include "shampoo/protocol/step_outcome.h"
#include "shampoo/protocol/step_report.h"
#include "shampoo/step_result.h"
#include "shampoo/update/engine.h"

namespace shampoo {

/// Takes steps together with the other ranks: what one rank meets, all throw.
class StepProtocol {
 public:
  StepProtocol(Backend& backend, Communicator& communicator, const OptimizerOptions& options);

  /// Calls body(), which makes a plan of the caller's input and returns its text, and compares it
  /// with the other ranks'. Collective; throws the same error on all ranks.
  template <typename Body>
  void agree(const Body& body);

  /// Calls body(), which prepares a call that is not a step and returns lines about `subject`, and
  /// compares them with the other ranks'. Collective; throws the same error on all ranks. `call`:
  /// see SegmentHeader::step.
  template <typename Body>
  std::string vote(std::int64_t call, std::string_view subject, const Body& body);

  /// Calls body(), a collective. Once the communicator has failed, there is no going on.
  template <typename Body>
  void together(const Body& body);

  /// Whether it holds on all ranks. Collective. `call`: see SegmentHeader::step.
  bool everywhere(std::int64_t call, bool holds);

  /// Loads a state. examine() does what can fail and returns lines that are equal on all ranks;
  /// where it succeeded on all of them, replace(statistics) runs, which returns the progress of the
  /// state.
  /// Collective. Steps can then be taken again whatever failed before, but for the communicator.
  template <typename Examine, typename Replace>
  void load(const Examine& examine, const Replace& replace);

  void check_usable() const;
  std::uint64_t plan_hash() const { return plan_hash_; }
  Progress progress() const { return {attempts_, taken_, skipped_in_a_row_}; }

  /// Learns the outcome of the step before, whose error, if nobody read it, it throws; then calls
  /// body(), the host work of a step, and uploads. On several ranks the faults of body() are kept
  /// for take(), where all ranks meet.
  template <typename Body>
  void prepare(Engine& engine, const Body& body);

  /// Queues the prepared step, or has it recorded. Collective. Where the backend is immediate, the
  /// outcome is known then, and its error is thrown.
  StepResult take(Engine& engine);

  /// Learns the outcome of the step under way. Waits for that step. Its error is kept: for whoever
  /// reads the result, or for prepare().
  void settle();
  /// Of the latest step that was queued or replayed. Waits for it.
  StepResult latest_result();
  /// The caller has been told of the error.
  void told(const std::exception_ptr& error);

  /// Why steps can no longer be taken; empty while they can.
  std::string failure() const { return unusable_ ? unusable_->what() : ""; }

  const Statistics& statistics() const { return statistics_; }
  std::int64_t workspace_bytes() const;

 private:
  using Round = StepReport::Round;

  template <typename Body>
  void guard(const Body& body);
  void begin_load() const;
  [[noreturn]] void fail_load();
  void finish_load(const Progress& progress);

  // Queueing: stepper.cpp
  void begin_prepare();
  void finish_prepare(Engine& engine);
  void forbid(Engine& engine);
  void write_header(Engine& engine, std::int64_t step);
  static void tell(Engine& engine, RankStatus finding);
  StepResult capture(Engine& engine);
  void queue(Engine& engine, bool captures);
  bool passes_vote(Engine& engine);
  bool may_compute(Engine& engine);
  void compute(Engine& engine, const StepInputs& inputs, bool captures);
  void exchange(Engine& engine, const StepInputs& inputs);

  // Outcome: stepper_outcome.cpp
  bool await_replay();
  void throw_error();
  void conclude(StepOutcome& outcome);
  void check_runs();
  void collect();
  StepDecision decide();
  const StepDecision& vote_decision();
  static bool passes(const StepDecision& decision);
  void throw_if_failed(const StepDecision& decision, const std::string& call);
  [[noreturn]] void end(const CommunicationError& cause);
  void refuse(std::string_view name);
  Diagnostics diagnostics() const;

  Backend& backend_;
  Communicator& communicator_;
  OptimizerOptions options_;
  Consensus consensus_;
  kernels::Buffer gradient_scale_;
  StepReport report_;
  std::optional<Exchange> vote_;
  Statistics statistics_;
  std::uint64_t plan_hash_ = 0;
  std::int64_t attempts_ = 0;  ///< steps, refused ones included
  std::int64_t taken_ = 0;     ///< steps that were not refused
  int skipped_in_a_row_ = 0;

  Engine* engine_ = nullptr;                ///< of the step that is prepared or under way
  bool prepared_ = false;                   ///< and neither queued nor known to be replayed
  bool captured_ = false;                   ///< a step of training_
  kernels::ReplayCounter runs_;             ///< that are known of
  std::int64_t tickets_ = 0;                ///< of prepared steps, for replays
  std::optional<TransferableError> fault_;  ///< of this rank, which then cannot take the step
  std::optional<TransferableError> late_;   ///< to be thrown after a step: of this rank
  std::optional<StepDecision> voted_;       ///< of the step under way, where it is known
  std::shared_ptr<StepOutcome> under_way_;  ///< of a step that is queued
  std::shared_ptr<StepOutcome> latest_;
  std::exception_ptr error_;                    ///< that nobody was told of
  std::optional<CommunicationError> unusable_;  ///< what every call throws from now on
  StepOutcomes outcomes_;
};

/// On one rank what is thrown is thrown at once. On more, a rank with a fault takes part in what
/// follows, so that all ranks can throw it.
template <typename Body>
void StepProtocol::guard(const Body& body) {
  if (consensus_.alone()) return body();
  if (fault_) return;
  try {
    body();
  } catch (...) {
    fault_ = current_error();
  }
}

template <typename Body>
void StepProtocol::together(const Body& body) {
  try {
    body();
  } catch (const CommunicationError& error) {
    if (!communicator_.failure().empty()) end(error);
    throw;
  }
}

template <typename Body>
void StepProtocol::agree(const Body& body) {
  settle();
  check_usable();
  plan_hash_ = Consensus::hash_of(vote(adding_groups, "plan", body));
  prepared_ = captured_ = false;
}

template <typename Body>
std::string StepProtocol::vote(std::int64_t call, std::string_view subject, const Body& body) {
  std::string text;
  // A step that was prepared keeps its own fault.
  const std::optional<TransferableError> prepared = std::exchange(fault_, std::nullopt);
  guard([&] { text = body(); });
  const std::optional<TransferableError> own = std::exchange(fault_, prepared);
  if (!consensus_.alone())
    together([&] { throw_if_failed(consensus_.rule_on(call, subject, text, own), ""); });
  return text;
}

template <typename Examine, typename Replace>
void StepProtocol::load(const Examine& examine, const Replace& replace) {
  settle();
  begin_load();
  vote(loading_state, "state", examine);
  try {
    finish_load(replace(statistics_));
  } catch (...) {
    fail_load();
  }
}

template <typename Body>
void StepProtocol::prepare(Engine& engine, const Body& body) {
  begin_prepare();
  try {
    guard(body);
  } catch (...) {
    forbid(engine);
    throw;
  }
  finish_prepare(engine);
}

}  // namespace shampoo
