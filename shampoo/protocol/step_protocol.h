// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "distributor/caller_name.h"
#include "distributor/exchange.h"
#include "grouping/hash.h"
#include "shampoo/gradients/gradient_pipeline.h"
#include "shampoo/group.h"
#include "shampoo/protocol/consensus.h"
#include "shampoo/protocol/step_outcome.h"
#include "shampoo/protocol/step_report.h"
#include "shampoo/step_result.h"
#include "shampoo/update/engine.h"
#include "shampoo/update/evaluation_values.h"

namespace shampoo {

/// Runs a step as a collective: an error on any rank is rethrown on all ranks.
class StepProtocol {
 public:
  StepProtocol(kernels::Backend& backend, Communicator& communicator,
               const OptimizerOptions& options);

  /// Calls body(), which plans the added groups and returns the plan's text, and compares the text
  /// across ranks. Collective; throws the same error on all ranks.
  template <typename Body>
  void agree(const Body& body);

  /// Calls body(), which prepares a call other than a step and returns lines about `subject`, and
  /// compares them across ranks. Collective; throws the same error on all ranks. `call`: see
  /// SegmentHeader::step. Returns the lines.
  template <typename Body>
  std::string vote(std::int64_t call, std::string_view subject, const Body& body);

  /// Calls body(), collectives of `call` (see SegmentHeader::step). If the communicator fails in
  /// it, disables the optimizer; an exception of this rank alone ends the communicator, so that the
  /// other ranks do not wait for this one but throw its message.
  template <typename Body>
  void in_collective(std::int64_t call, const Body& body);

  /// Loads a state. examine() does everything that can fail and returns lines that must be equal on
  /// all ranks; after it succeeded on all of them, replace(statistics) writes the state and returns
  /// its progress. Collective. Enables a disabled optimizer again, unless its communicator failed.
  template <typename Examine, typename Replace>
  void load(const Examine& examine, const Replace& replace);
  /// The same for states of several optimizers over the same ranks, none of which changes unless
  /// all can. The first one votes. replace(i, statistics) writes that of the i-th. Before that,
  /// write_user(), if there is one, writes what else is loaded: where it fails on a rank, all throw
  /// its error, and are disabled until a load succeeds.
  template <typename Examine, typename Replace>
  static void load_all(std::span<StepProtocol* const> protocols, const Examine& examine,
                       const Replace& replace, const std::function<void()>& write_user = {});

  /// Puts the evaluation values in place of the values; check() validates rates. Collective if a
  /// group averages iterates or values; waits. Throws the same error on all ranks, with nothing
  /// changed.
  void begin_evaluation(Engine& engine, const std::function<void()>& check);
  /// Brings the training values back. Collective if a group averages iterates or values; waits. An
  /// error disables the optimizer, and so does, on several ranks, an exception that passes
  /// (`unwinding`): then nothing is exchanged.
  void end_evaluation(Engine& engine, bool unwinding);
  /// Throws std::logic_error that names `call` while the evaluation values are in place, and in
  /// OptimizerOptions::transform_direction.
  void require_training(const char* call) const;

  /// Throws the error that disabled the optimizer, if any.
  void check_usable() const;
  /// The same in a collective call: ranks that wait for the end of an Evaluation, which an
  /// exception has ended here, are told first.
  void join_usable();
  std::uint64_t plan_hash() const { return plan_hash_; }
  /// Waits.
  Progress progress() const;
  std::int64_t taken() const { return taken_; }
  /// Of the gradients of the next step; waits for the pending one.
  double loss_scale();
  /// [backend]
  const float* loss_scale_address() const { return gradients_.loss_scale(); }
  /// Before gradients or their addresses are written: waits for the previous step, which must not
  /// have been followed by prepare(), on all ranks or on none. Collective.
  void begin_averaging();
  /// Multiplies the gradients of the next step by 1 / loss_scale(), where they are. Queued after a
  /// wait for the previous step, which must not have been followed by prepare().
  void unscale(Engine& engine, bool allow_float16);
  /// Gradients <- 0, where they are, as if they had not been unscaled. Likewise.
  void zero_gradients(Engine& engine);

  /// Waits for the previous step and throws its error if that was not reported yet; then calls
  /// body(), the host work of a step, and uploads. On several ranks an error of body(), or that the
  /// evaluation values are in place, is kept for take(), which is collective.
  template <typename Body>
  void prepare(Engine& engine, const Body& body);

  /// Queues the prepared step, or records it during a capture. Collective. An immediate backend
  /// completes the step here, and its error is thrown.
  StepResult take(Engine& engine);

  /// Waits for the pending step and determines its outcome. Its error is kept and thrown by the
  /// StepResult or the next prepare().
  void wait_for_previous();
  /// Result of the latest queued or replayed step. Waits for it. Throws std::logic_error without.
  StepResult latest_result();
  /// Marks the error as thrown to the caller.
  void mark_reported(const std::exception_ptr& error);

  /// Message of the error that disabled the optimizer; empty while it is usable.
  std::string failure() const { return unusable_ ? unusable_->what() : ""; }

  const Statistics& statistics() const { return statistics_; }
  std::int64_t workspace_bytes() const;

 private:
  using Round = StepReport::Round;

  template <typename Body>
  void capture_error(const Body& body);
  template <typename Body>
  std::optional<TransferableError> own_error(const Body& body);
  void check_communicator() const;

  // Loading: load_protocol.cpp
  [[noreturn]] void fail_replacing(const std::string& replaced);
  static void write_user(std::span<StepProtocol* const> protocols,
                         const std::function<void()>& write);
  [[noreturn]] static void fail_loading(std::span<StepProtocol* const> protocols);
  void finish_load(const Progress& progress);

  // Queueing: step_protocol.cpp
  void begin_prepare();
  void finish_prepare(Engine& engine);
  void compare_values(Engine& engine);
  void disable_replay(Engine& engine);
  void write_header(Engine& engine, std::int64_t step);
  static void set_status(Engine& engine, RankStatus status);
  void fail_queueing(StepOutcome& outcome);
  StepResult capture(Engine& engine);
  void queue(Engine& engine, bool captures);
  static void run(Engine& engine, Phase phase, Exchange& exchange);
  bool passes_vote(Engine& engine);
  bool may_compute(Engine& engine);
  void finish_compute(Engine& engine, bool captures);
  void exchange(Engine& engine);

  // Evaluation values: evaluation.cpp
  void require_outside_transform() const;
  bool rejoin();
  void exchange_values(Engine& engine, std::int64_t call, const std::function<void()>& fill);

  // Writing gradients: loss_scale.cpp
  void begin_writing_gradients(const char* call);

  // Outcome: step_completion.cpp
  bool await_replay();
  void throw_error();
  void complete(StepOutcome& outcome);
  void describe_gradients(const StepDecision& decision, StepOutcome& outcome);
  void check_replays();
  void collect_refresh();
  StepDecision decide();
  const StepDecision& vote_decision();
  static bool passes(const StepDecision& decision);
  void throw_if_failed(const StepDecision& decision, const std::string& call);
  [[noreturn]] void fail_collective(std::int64_t call);
  void disable(const std::string& what, std::vector<int> missing_ranks = {});
  [[noreturn]] void disable_by(const CommunicationError& cause);
  void defer_exhaustion(Engine& engine);
  void count_skipped(std::string_view name);
  Diagnostics diagnostics() const;

  kernels::Backend& backend_;
  Communicator& communicator_;
  OptimizerOptions options_;
  Consensus consensus_;
  StepReport report_;
  GradientPipeline gradients_;
  Exchange* vote_ = nullptr;  ///< before every step; null without agree_before_commit
  Statistics statistics_;
  std::uint64_t plan_hash_ = 0;
  std::int64_t attempts_ = 0;  ///< steps, skipped ones included
  std::int64_t taken_ = 0;     ///< steps that were not skipped
  int skipped_in_a_row_ = 0;

  Engine* engine_ = nullptr;         ///< of the prepared or pending step
  bool prepared_ = false;            ///< a step is prepared, and neither queued nor replayed
  bool captured_ = false;            ///< a step of engine_ was captured
  bool admitted_ = false;            ///< the latest step was queued as far as its admission
  bool computing_ = false;           ///< OptimizerOptions::transform_direction may be running
  bool unscaled_ = false;            ///< the gradients of the next step are
  kernels::ReplayCounter replays_;   ///< completed replays, as last reported
  bool values_compared_ = false;     ///< by a step since the last call that may have replaced them
  std::vector<double> value_norms_;  ///< of the prepared step; empty: it does not compare values
  bool evaluating_ = false;          ///< evaluation values are in place
  bool left_evaluation_ = false;     ///< by an exception, of which the other ranks may not know
  std::optional<EvaluationValues> evaluation_;  ///< while they are, if a group has such
  std::int64_t generation_ = 0;                 ///< last generation of a prepared step, for replays
  std::optional<TransferableError> step_error_;      ///< prevents this rank from taking the step
  std::optional<TransferableError> deferred_error_;  ///< of this rank, thrown after a step
  std::optional<StepDecision> voted_;     ///< decision of the pending step's vote, if known
  std::shared_ptr<StepOutcome> pending_;  ///< the queued step
  std::shared_ptr<StepOutcome> latest_;
  std::exception_ptr unreported_error_;         ///< not yet thrown to the caller
  std::optional<CommunicationError> unusable_;  ///< thrown by every further call
  StepOutcomes outcomes_;
};

/// On one rank an error propagates at once. On several, a rank with an error still takes part in
/// the following collectives, so that all ranks can throw it.
template <typename Body>
void StepProtocol::capture_error(const Body& body) {
  if (consensus_.alone()) return body();
  if (step_error_) return;
  try {
    body();
  } catch (...) {
    step_error_ = current_error();
  }
}

/// The error of a call that a prepared step, which keeps its own, does not share.
template <typename Body>
std::optional<TransferableError> StepProtocol::own_error(const Body& body) {
  const std::optional<TransferableError> prepared = std::exchange(step_error_, std::nullopt);
  capture_error(body);
  return std::exchange(step_error_, prepared);
}

template <typename Body>
void StepProtocol::in_collective(std::int64_t call, const Body& body) {
  const CallerName name(communicator_, call_name(call), call);
  try {
    body();
  } catch (...) {
    fail_collective(call);
  }
}

template <typename Body>
void StepProtocol::agree(const Body& body) {
  wait_for_previous();
  join_usable();
  plan_hash_ = grouping::hash(vote(adding_groups, "plan", [&] {
    require_training("add_group");
    return body();
  }));
  prepared_ = captured_ = values_compared_ = false;
}

template <typename Body>
std::string StepProtocol::vote(std::int64_t call, std::string_view subject, const Body& body) {
  rejoin();
  std::string text;
  const std::optional<TransferableError> own = own_error([&] { text = body(); });
  if (consensus_.alone()) return text;
  StepDecision decision;
  in_collective(call, [&] { decision = consensus_.decide_call(call, subject, text, own); });
  throw_if_failed(decision, "");
  return text;
}

template <typename Examine, typename Replace>
void StepProtocol::load(const Examine& examine, const Replace& replace) {
  StepProtocol* const only = this;
  load_all(std::span(&only, 1), examine,
           [&](std::size_t, Statistics& statistics) { return replace(statistics); });
}

template <typename Examine, typename Replace>
void StepProtocol::load_all(std::span<StepProtocol* const> protocols, const Examine& examine,
                            const Replace& replace, const std::function<void()>& write) {
  for (StepProtocol* const protocol : protocols) {
    protocol->wait_for_previous();
    protocol->rejoin();
  }
  StepProtocol& first = *protocols.front();
  first.check_communicator();
  first.vote(loading_state, "state", [&] {
    for (StepProtocol* const protocol : protocols) {
      protocol->require_training("load");
      protocol->check_communicator();
    }
    return examine();
  });
  if (write) write_user(protocols, write);
  try {
    for (std::size_t i = 0; i < protocols.size(); ++i)
      protocols[i]->finish_load(replace(i, protocols[i]->statistics_));
  } catch (...) {
    fail_loading(protocols);
  }
}

template <typename Body>
void StepProtocol::prepare(Engine& engine, const Body& body) {
  begin_prepare();
  try {
    capture_error([&] {
      require_training("step");
      body();
    });
  } catch (...) {
    disable_replay(engine);
    throw;
  }
  finish_prepare(engine);
}

}  // namespace shampoo
