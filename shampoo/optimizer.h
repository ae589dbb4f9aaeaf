// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "shampoo/distributor/communicator.h"
#include "shampoo/group.h"
#include "shampoo/kernels/backend.h"
#include "shampoo/state_dict.h"
#include "shampoo/step_result.h"

namespace shampoo {

/// While it lives, the parameters have their evaluation values: see Optimizer::evaluate().
class [[nodiscard]] Evaluation {
 public:
  /// Calls end(). An error of it disables the optimizer, whose next call throws it. While an
  /// exception passes, there is no exchange on several ranks, as the others need not take part: the
  /// optimizer is disabled until a state is loaded, and its next collective call, such as step() or
  /// average_gradients(), begins with an exchange that tells those that wait in end() why.
  ~Evaluation();
  Evaluation(Evaluation&& other) noexcept = default;
  Evaluation& operator=(Evaluation&& other) noexcept {
    std::swap(end_, other.end_);
    std::swap(exceptions_, other.exceptions_);
    return *this;
  }

  /// Brings the training values back, bit for bit; whatever was written to the values since
  /// evaluate() is lost. Collective where evaluate() is, in one exchange; waits. Throws
  /// CommunicationError or DeviceError, and then the optimizer is disabled until a state is loaded,
  /// and values may be of either kind. Does nothing the second time, and after the optimizer was
  /// destroyed.
  void end();

 private:
  friend class Optimizer;
  /// The argument of `end` is true where an exception passes.
  explicit Evaluation(std::weak_ptr<const std::function<void(bool)>> end);

  std::weak_ptr<const std::function<void(bool)>> end_;
  int exceptions_;  ///< in flight when it was made
};

class Optimizer;

/// Called around every step: see Optimizer::on_step().
struct StepHooks {
  std::function<void(Optimizer&)> before = {};
  std::function<void(Optimizer&, StepResult&)> after = {};
};

/// Trains the parameters of all groups. Backend, communicator and tensors are borrowed and must
/// outlive it. Not safe for concurrent calls. statistics(), steps(), failure() and the state dicts
/// wait for the pending step; slot() does not, its data is read in stream order. The destructor
/// synchronizes the backend.
class Optimizer {
 public:
  /// Collective: all ranks pass equal groups, options and backends, apart from pointers. Throws
  /// std::invalid_argument that names group, parameter, field and range; CommunicationError, where
  /// the ranks' plans differ, that names the first difference. All ranks throw the same.
  Optimizer(Backend& backend, Communicator& communicator, std::vector<ParameterGroup> groups,
            const OptimizerOptions& options = {});
  ~Optimizer();
  Optimizer(Optimizer&&) noexcept;
  Optimizer& operator=(Optimizer&&) noexcept;

  /// prepare_step(), then enqueue_step(). Collective, with equal rates and gradients on all ranks;
  /// one collective call of the communicator. Throws std::invalid_argument before anything changed
  /// for a bad rate or pointer, and NumericalError for gradients or refreshes that keep failing;
  /// see NonFinite and RootInverse. An error on one rank is thrown on all ranks and names that
  /// rank. If other ranks had already applied the step, if ranks disagree, on a
  /// CommunicationError, or on one rank where the step had begun to compute, the optimizer is
  /// disabled: every later call throws a CommunicationError with the same text until a state is
  /// loaded.
  ///
  /// On the CPU the step is done when the call returns. On a device the call only queues, unless a
  /// refresh uses a solver with host steps; read values and gradients in stream order after it. Its
  /// errors are thrown by reading the result or by the next prepare_step(), which can be repeated.
  StepResult step();
  /// Calls the closure once, which computes the gradients, then step(). Returns what both return.
  template <std::invocable Closure>
  auto step(Closure&& closure) {
    if constexpr (std::is_void_v<std::invoke_result_t<Closure>>) {
      std::forward<Closure>(closure)();
      return step();
    } else {
      auto loss = std::forward<Closure>(closure)();
      return std::pair(std::move(loss), step());
    }
  }

  /// Has hooks called as long as the returned handle lives, which may end in a hook: `before` as
  /// the first thing that prepare_step() does once the step before is known, where it may set rates
  /// and gradients, and `after` as the last one of enqueue_step(), also of a step that is skipped.
  /// In the order of registration; for replays `before` alone. An exception of `before` is one of
  /// the step, on all ranks; one of `after` leaves the step taken. Hooks that are added in a hook
  /// are called from the next step on; add_group() throws std::logic_error there, and a hook must
  /// not call step(), prepare_step() or enqueue_step().
  [[nodiscard]] std::shared_ptr<const StepHooks> on_step(StepHooks hooks);

  /// Host work of the next step: reads the outcome of the previous step, validates rates and
  /// gradient pointers, and uploads what changed, in one copy. On a device it waits for the
  /// previous step, not for work queued after it. With several ranks its errors are thrown by
  /// enqueue_step(), which is collective.
  void prepare_step();
  /// Runs the prepared step. Throws std::logic_error unless one was prepared. Collective.
  ///
  /// May be captured into a graph on the backend's stream: each replay then takes the step that was
  /// prepared last, with its rates, counters and absent gradients; gradient pointers stay as they
  /// were. A step where refresh_has_host_steps() is enqueued: no graph serves it, and a capture
  /// throws std::logic_error that names the solver. Of the others, what a step was captured for,
  /// its replays compute each time, and it serves:
  ///
  ///     captured where             serves steps where           computes
  ///     !refresh_is_due()          !refresh_is_due()            no roots
  ///     refresh_is_due()           !refresh_is_large()          as many as are ever due at a time
  ///     refresh_is_large()         any                          all
  ///
  /// Replayed for another step it changes nothing, and the next prepare_step() throws
  /// std::logic_error. With Refresh::staggered few steps refresh nothing, and no more than about
  /// one in `every` of the roots is due at a time; otherwise all are.
  ///
  /// Each prepare_step() is followed by one enqueue_step() or replay. With none, the next
  /// prepare_step() prepares the step anew, or throws std::logic_error once a step was captured.
  /// With more than one, a replay disables the optimizer until a state is loaded, and
  /// enqueue_step() throws std::logic_error. add_group() invalidates graphs. Other ranks do not
  /// hear of a capture that throws, and their replays wait for this rank until the deadline:
  /// enqueue the step without a capture, after an error other than std::logic_error once it is
  /// prepared again.
  StepResult enqueue_step();
  /// True if the prepared step refreshes a block that this rank owns.
  bool refresh_is_due() const;
  /// True if it computes, without host steps, more of this rank's roots of one size than any step
  /// does while all parameters have a gradient in every step: in the step `first`, where that is
  /// less than `every`, and where counters of parameters have drifted apart.
  bool refresh_is_large() const;
  /// True if one of its refreshes of this rank's blocks is by a solver with host steps, as Eigen.
  bool refresh_has_host_steps() const;
  /// Result of the latest step that was enqueued or replayed. Waits for it. Throws std::logic_error
  /// if there is none.
  StepResult latest_result();

  /// What the next loss is to be multiplied by where OptimizerOptions::gradients has a LossScaling;
  /// otherwise 1. Waits for the previous step.
  double loss_scale() const;
  /// [backend] The same number, for a backward pass that is queued after the step, or captured: the
  /// address stays as long as the optimizer.
  const float* loss_scale_address() const;
  /// Divides the gradients of the next step by the loss scale, where they are, for callers who look
  /// at them first; the step takes them as they then are. Queued, after a wait for the previous
  /// step. Throws std::logic_error the second time before a step that succeeds or
  /// zero_gradients(), after prepare_step() and during a capture; std::invalid_argument for a
  /// gradient in float16 unless `allow_float16`, as what is small becomes 0, and for gradients that
  /// share memory, such as expanded ones of stride 0; the error that disabled the optimizer.
  void unscale(bool allow_float16 = false);
  /// Sets all gradients that are present to 0, where they are; those that come next have the loss
  /// scale, whether or not these were unscaled. Queued, after a wait for the previous step; waits
  /// for all that is queued where they were unscaled. Throws std::logic_error after prepare_step()
  /// and during a capture; the error that disabled the optimizer. Group::set_gradient() makes one
  /// absent instead.
  void zero_gradients();

  /// Gradients <- their mean over ranks, where they are, before each step; frozen parameters' too.
  /// One that is absent on all ranks stays so; one that is absent on some counts as zeros there,
  /// and lies in memory of the optimizer's until the step has been queued, which leaves it absent
  /// again; or in memory of `zeros`, which returns where zeros lie that take its place. After an
  /// error of step() the optimizer's memory serves a repetition, and counts as zeros in the next
  /// mean. Where an iteration is dropped after average_gradients(), call zero_gradients() or
  /// set_gradient(j, nullptr) before the next. On one rank nothing changes. Collective; waits, as
  /// ranks agree on which there are: Communicator::average() of a known list only queues on a
  /// device. Throws as zero_gradients(), on all ranks, with nothing changed. An exception of
  /// `zeros` disables the optimizer.
  void average_gradients(const std::function<void*(const Parameter&)>& zeros = {});

  /// Puts the evaluation values in place of the parameters' values on all ranks, until the returned
  /// guard ends: X = W + (1 - 1 / mu_y) (Z - W) for PrimalAveraging and ScheduleFree, with the
  /// present rate mu_y = train_interpolation, rounded once to the parameter's type. The values of
  /// other parameters stay as they are. Owners keep a copy of the training values of their blocks.
  ///
  /// With Recipe::value_averaging the average A takes their place, and nothing is computed.
  ///
  /// Collective, with equal rates, if a group averages an iterate or values, in one exchange of
  /// values in their own types; otherwise without communication. Waits. Inside, step(),
  /// enqueue_step(), state_dict(), full_state_dict(), save(), load(), add_group(), evaluate(),
  /// read_values(), unscale(), zero_gradients() and average_gradients() throw std::logic_error,
  /// with nothing changed; where only some ranks have a guard, collectives throw on all, and a step
  /// that others took is a fault as a rate that is bad on one rank. Throws std::logic_error where a
  /// step is prepared, std::invalid_argument for a bad rate, CommunicationError where rates differ,
  /// the same on all ranks, with nothing changed. End the guard before the optimizer is destroyed,
  /// which leaves the evaluation values in place.
  Evaluation evaluate();

  /// To be called on all ranks after the caller has overwritten values, as by broadcasting them:
  /// the float32 masters of 16-bit values, which the next step would otherwise bring back, and
  /// averaged iterates and averages of values start again from the values. Queued, after a wait for
  /// the previous step. Throws the error that disabled the optimizer.
  void read_values();

  /// Adds groups; existing ones keep their state and owners. Parameters of them that were frozen so
  /// far are trained from now on. Plans all groups again, and copies their state: many are added at
  /// once. Waits for the backend. Collective, and throws like the constructor, with nothing
  /// changed.
  void add_groups(std::vector<ParameterGroup> groups);
  /// add_groups() of one.
  void add_group(ParameterGroup group);

  /// This rank's part of the state, copied to host memory: the blocks that it owns, and step
  /// counters, rates and recipe of every parameter. Waits for the backend; not collective. Throws
  /// the error that disabled the optimizer, if one did.
  StateDict state_dict(const StateDictOptions& options = {}) const;
  /// State of all ranks, on every rank or on rank 0; the others then get an empty one. Elementwise
  /// tensors are whole. Collective with equal arguments; throws the same error on all ranks.
  StateDict full_state_dict(const StateDictOptions& options = {},
                            Gather gather = Gather::everywhere);
  /// Replaces the state by that of a state dict from any number of ranks and any grouping, merging
  /// and order of parameters. Each rank's dict must contain the state of the blocks that it owns; a
  /// full_state_dict() always does. Values are the caller's to restore; the float32 masters of
  /// 16-bit values are part of the state. Groups keep their parameters and take the saved rates
  /// unless the options keep theirs.
  ///
  /// Collective, with equal options, counters and rates. Everything is validated on all ranks
  /// first: an error on any rank (std::invalid_argument that names tensor or parameter) is thrown
  /// on all, with nothing changed. Re-enables a disabled optimizer, unless the communicator has
  /// failed. The LoadReport lists anything that prevents bit-exact resumption.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

  /// Reason why the optimizer is disabled; empty if it is usable.
  std::string failure() const;

  /// Number of groups, merged or not.
  int group_count() const;
  /// Rates are those of a group, as there is no one learning rate of all. Throws std::out_of_range.
  Group& group(int index);

  /// Counters of this rank since construction.
  Statistics statistics() const;
  /// Steps that the parameter has taken. Throws std::invalid_argument for an unknown name.
  std::int64_t steps(std::string_view parameter) const;
  /// Blocks of a parameter, in the order of the cut.
  int block_count(std::string_view parameter) const;
  /// Names of the slots of a parameter's block.
  std::vector<std::string> slot_names(std::string_view parameter, int block) const;
  /// Throws std::invalid_argument for an unknown parameter, block or slot.
  SlotView slot(std::string_view parameter, int block, std::string_view slot) const;

  /// Bytes that live between steps on this rank, without exchange buffer and tables.
  std::int64_t state_bytes() const;
  /// Bytes in addition to the state: directions, solver workspace, exchange buffer, tables.
  std::int64_t workspace_bytes() const;
  /// Human-readable table of the plan, this rank's memory (workspace, the backend's scratch and
  /// host memory, its pool, which other users of the backend share), labels and present rates of
  /// all groups, frozen parameters, rates that recipes do not read, and the phases of a step on
  /// this rank: their predicted shares of the time and, of the steps since groups were last added,
  /// the measured ones, on a device if OptimizerOptions asks for them. Waits for the pending step.
  std::string describe() const;

 private:
  friend class OptimizerAccess;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace shampoo
