// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/communicator.h"
#include "kernels/backend.h"
#include "shampoo/parameter.h"
#include "shampoo/rates.h"
#include "shampoo/recipe.h"
#include "shampoo/state_dict.h"
#include "shampoo/statistics.h"

namespace shampoo {

/// Parameters with one set of rates and one recipe.
struct ParameterGroup {
  std::vector<Parameter> parameters = {};  ///< at least one
  Rates rates = {};
  Recipe recipe = {};
};

class ValueMemory;

/// A group while it is trained. `rates` may be assigned at any time between steps.
class Group {
 public:
  Rates rates;

  const Recipe& recipe() const { return recipe_; }
  std::span<const Parameter> parameters() const { return parameters_; }

  /// Where the gradient of the group's j-th parameter lies from the next step on; null: absent.
  /// Type and strides stay. Throws std::out_of_range for j, and std::invalid_argument where the
  /// memory is not aligned to its elements or overlaps a value.
  void set_gradient(std::size_t j, void* data);

 private:
  friend class Optimizer;
  Group(ParameterGroup group, int index, const ValueMemory& values);

  Recipe recipe_;
  std::vector<Parameter> parameters_;
  int index_;
  const ValueMemory& values_;
};

/// What a step does when a gradient is not finite.
enum class NonFinite : std::uint8_t {
  skip,   ///< nothing changes; an error after `skipped_in_a_row`
  error,  ///< nothing changes; NumericalError
  ignore  ///< the step is taken
};

struct OptimizerOptions {
  NonFinite non_finite = NonFinite::skip;
  int skipped_in_a_row = 20;  ///< refused steps in a row after which step() throws; >= 1
  bool merge_groups = true;   ///< off: one virtual group per group; results are the same bits
  /// Ranks vote, in a small collective of its own, before a step writes anything: what is wrong on
  /// one rank then leaves all of them as they were. For gradients that are not equal on all ranks.
  bool agree_before_commit = false;
};

struct StepOutcome;

/// Outcome of one step.
///
/// Where the backend is asynchronous, the step may still be under way: reading its result waits for
/// it, and throws what step() throws at once elsewhere: NumericalError, CommunicationError. On many
/// ranks, all read a result or none does before the next prepare_step(): where ranks differ, they
/// find out in what by collectives of their own. A result may be read at any time before the
/// optimizer goes, and afterwards if it was known by then.
class StepResult {
 public:
  explicit StepResult(std::shared_ptr<StepOutcome> outcome) : outcome_(std::move(outcome)) {}

  /// Whether parameters and state changed.
  bool applied() const;
  /// Name of the first parameter with a non-finite gradient; empty: none. Valid as long as the
  /// optimizer.
  std::string_view non_finite_gradient() const;
  /// Euclidean norm of all gradients together.
  double gradient_norm() const;

 private:
  std::shared_ptr<StepOutcome> outcome_;
};

/// One piece of state, for diagnosis: elements of one block in the backend's memory.
struct SlotView {
  const void* data = nullptr;  ///< [backend]
  Type type = Type::float32;
  std::vector<std::int64_t> extent = {};
  std::vector<std::int64_t> strides = {};  ///< in elements
  bool lower_triangle = false;             ///< only elements (i, j) with j <= i mean something
  bool upper_triangle = false;             ///< only elements (i, j) with j >= i mean something
};

/// Trains the parameters of all groups. Backend, communicator and tensors are borrowed and must
/// outlive it. Not safe for concurrent calls. What tells of steps or state waits for the step under
/// way; the destructor waits for all work of the backend.
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

  /// prepare_step(), then enqueue_step(). Collective: rates, presence and bytes of the gradients
  /// are equal on all ranks. On several ranks it is one collective. Throws std::invalid_argument
  /// before anything changed when a rate or pointer is bad, and NumericalError when gradients or
  /// decompositions stayed bad; see NonFinite and RootInverse. What one rank meets, all throw, with
  /// its rank; where the others have gone on by then, and where they differ or are lost
  /// (CommunicationError), the message says that the optimizer can no longer be used, and later
  /// calls throw it again.
  ///
  /// Where the backend is immediate (the CPU), the step is done when the call returns; on several
  /// ranks it waits for them. Elsewhere the call only queues, but for a refresh by a solver with
  /// host steps; values, gradients and results are to be read behind it on the backend's stream,
  /// and its errors are thrown by reading the result or by the next prepare_step(), which can then
  /// be called again.
  StepResult step();

  /// Host work of the next step: learns the outcome of the step before, validates rates and
  /// gradient pointers, and uploads what changed, in one copy. Where the backend is asynchronous it
  /// waits for the step before, not for what was queued behind it. On several ranks its faults are
  /// thrown by enqueue_step(), where the ranks meet.
  void prepare_step();
  /// Runs the prepared step. Throws std::logic_error unless one was prepared.
  ///
  /// It may be captured in a graph on the backend's stream: the prepared step is then not run, but
  /// recorded, and each replay takes the step that was prepared last, with its rates, counters and
  /// absent gradients. A step with a refresh can be captured if its solver has no host steps
  /// (std::logic_error names it otherwise), and then serves all steps; one without serves the steps
  /// for which refresh_is_due() is false, and is refused, with a std::logic_error from the next
  /// prepare_step() and nothing changed, where a refresh is due. Gradient pointers stay as they
  /// are. Every prepare_step() takes one replay or enqueue_step(): without any, the next one throws
  /// std::logic_error; after more than one the optimizer can no longer be used until a state is
  /// loaded. add_group() makes graphs invalid.
  StepResult enqueue_step();
  /// Whether the prepared step recomputes roots, on this rank.
  bool refresh_is_due() const;
  /// The result of the latest step that was enqueued or replayed. Throws std::logic_error if there
  /// is none.
  StepResult latest_result();

  /// Collective, and throws like the constructor; nothing has changed then. Existing groups, their
  /// state and their owners stay.
  void add_group(ParameterGroup group);

  /// This rank's part of the state, copied to host memory: the blocks that it owns and what is
  /// known of all parameters. Not collective; waits for the backend. Throws what later calls throw
  /// once the optimizer can no longer be used.
  StateDict state_dict(const StateDictOptions& options = {}) const;
  /// The state of all ranks, on all of them or on rank 0; the others then get an empty one.
  /// Elementwise tensors are whole. Collective with equal arguments; throws the same on all ranks.
  StateDict full_state_dict(const StateDictOptions& options = {},
                            Gather gather = Gather::everywhere);
  /// Replaces the state by that of a state dict from any number of ranks and any grouping, merging
  /// and order of the parameters; a rank's must have what its own blocks need, as that of
  /// full_state_dict() always has. Values of parameters are the caller's to restore; of those of 16
  /// bits the float32 masters are part of the state. Groups stay where they are; their rates change
  /// unless the options keep them.
  ///
  /// Collective, with equal options and counters and rates of the state dicts. Everything is
  /// checked on all ranks first: where a rank finds a fault, all throw it (std::invalid_argument
  /// that names the tensor or parameter) and nothing has changed. Afterwards steps can be taken
  /// again even if failure() said otherwise, unless the communicator has failed. Training goes on
  /// with the bits of the run that was saved; the report names what stands against that.
  LoadReport load_state_dict(const StateDict& dict, const LoadOptions& options = {});

  /// Why steps can no longer be taken; empty while they can.
  std::string failure() const;

  int group_count() const;
  /// Throws std::out_of_range.
  Group& group(int index);

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
  /// Bytes beside the state: directions, solver workspace, exchange buffer, tables.
  std::int64_t workspace_bytes() const;
  /// The plan as a table for people, with this rank's workspace and what its backend has beside:
  /// scratch memory, host memory for copies, and the pool, shared with other users of the backend.
  std::string describe() const;

 private:
  friend class OptimizerAccess;
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace shampoo
