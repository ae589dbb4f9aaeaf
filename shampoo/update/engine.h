// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/exchange.h"
#include "grouping/plan.h"
#include "grouping/segments.h"
#include "shampoo/trace/step_clock.h"
#include "shampoo/update/group_step.h"

namespace shampoo {

/// All virtual groups of an optimizer for one sequence of groups: the plan, the tables derived from
/// it, the state.
class Engine {
 public:
  /// Groups of `before`, if any, come first and keep owners and state. `before` is not modified.
  /// `trace`: see StepClock; may be null.
  Engine(kernels::Backend& backend, Communicator& communicator, const OptimizerOptions& options,
         std::span<const Group* const> added, const Engine* before, TraceFile* trace);

  /// Host work of the next step. The caller then writes header() and permit().
  void prepare();
  /// Present gradients <- *factor gradients, where they are; *factor [backend] may be 0. Uploads
  /// their addresses.
  void scale_gradients(const double* factor);
  /// Throws std::invalid_argument where scale_gradients() would scale an element twice.
  void require_distinct_gradients(const std::string& call);
  /// Number of parameters with elements, but without a gradient in the prepared step.
  std::int64_t absent_gradients() const;
  /// Throws std::invalid_argument if no parameter has, or ever had, a gradient, and
  /// std::logic_error if there is no group.
  void require_gradients() const;
  /// Squared norm of each parameter's value: equal bits for equal values. Waits.
  std::vector<double> value_norms();
  /// Masters and averaged iterates <- values. Queued.
  void read_values();
  bool refreshes() const;
  /// Name of a solver with host steps in the prepared refresh; empty: none.
  std::string_view waiting_solver() const;
  /// Returns true if a prepared refresh has no host steps.
  bool queues_refresh() const;
  /// Returns true if such a refresh needs more roots of one size than steps usually do.
  bool exceeds_usual() const;
  const kernels::StagedArray<SegmentHeader>& header() const { return header_; }
  const kernels::StagedArray<kernels::StepPermit>& permit() const { return permit_; }
  /// Uploads all step inputs in one copy, if any of them changed.
  void upload() { columns_.upload(); }

  // The prepared step, in this order. Queued.
  void scan(const double* gradient_scale, bool skips, kernels::ScanResult* result);
  /// Gives every parameter a scale of its own, so that no gradient is longer than `max_norm`.
  void clip_parameters(double max_norm, StepInputs& inputs);
  /// Computes the updates in this rank's segment; on one rank applies them instead. Waits if a
  /// solver has host steps.
  void compute(StepInputs inputs, Refreshing refreshing, Statistics& statistics);
  StepClock& clock() { return *clock_; }
  Exchange& exchange() { return *exchange_; }
  /// Exchange of whole values, in their own types, for groups whose recipe averages iterates or
  /// values; it shares the buffer of exchange(). Null: there are none.
  Exchange* value_exchange() const { return value_exchange_.get(); }
  const grouping::Segments& value_segments() const { return value_segments_; }
  /// Applies the exchanged updates. Not on one rank.
  void apply(const std::int32_t* proceed);

  /// See GroupStep.
  void collect(Statistics& statistics);
  /// Counts the prepared step as taken.
  void count_step();
  /// See GroupStep.
  std::string exhausted_block() const;

  const grouping::Plan& plan() const { return plan_; }
  std::span<const Group* const> groups() const { return groups_; }
  std::span<const RegisteredParameter> parameters() const { return parameters_; }
  std::span<RegisteredParameter> parameters() { return parameters_; }
  /// One for every virtual group.
  std::span<const std::unique_ptr<GroupStep>> group_steps() const { return group_steps_; }
  int rank() const { return communicator_.rank(); }
  kernels::Tensors tensors() const { return tensors_.tensors(); }
  /// Row of a member of a virtual group.
  int row(const grouping::Member& member) const;

  /// Name of the parameter in a row; empty for -1.
  std::string_view name(int row) const;
  /// Throws std::invalid_argument for an unknown name, as the next two do, also for a block or slot
  /// that there is not.
  const RegisteredParameter& find(std::string_view name) const;
  std::vector<std::string> slot_names(std::string_view parameter, int block) const;
  SlotView slot(std::string_view parameter, int block, std::string_view slot) const;

  std::int64_t state_bytes() const;
  std::int64_t workspace_bytes() const;
  /// `workspace_bytes`: total of the optimizer.
  std::string describe(std::int64_t workspace_bytes, std::uint64_t plan_hash) const;

 private:
  void find_present();
  void register_groups(std::span<const Group* const> added);
  void mark_thawed();
  void build_tables();
  void build_exchanges();
  void build_group_steps(const Engine* before);
  /// This rank's blocks of virtual group `v`, in flat order.
  std::vector<OwnedBlock> owned_blocks(int v) const;
  /// See direction_limit().
  std::int64_t direction_limit() const;
  std::pair<const GroupStep*, int> locate(std::string_view parameter, int block) const;

  kernels::Backend& backend_;
  Communicator& communicator_;
  const OptimizerOptions& options_;
  std::vector<RegisteredParameter> parameters_;  ///< rows, in the order of groups
  std::vector<const Group*> groups_;
  std::vector<int> first_rows_;  ///< per group
  grouping::Plan plan_;
  grouping::Segments segments_, value_segments_;

  kernels::StagedArrays columns_;
  kernels::StagedArray<SegmentHeader> header_;  ///< this rank's, for the prepared step
  kernels::StagedArray<kernels::StepPermit> permit_;
  TensorTable tensors_;
  ElementTable scan_table_, apply_table_;
  /// Type that gradients are converted to before they are judged finite: float64 if a recipe
  /// computes in it, but float32 for parameters whose own recipe does not. Sums are always in
  /// double, as squares of float32 values may overflow float32.
  Type scan_type_ = Type::float32;
  kernels::Buffer gradient_scales_;              ///< per parameter, for clip_parameters()
  std::unique_ptr<ElementTable> written_table_;  ///< for scale_gradients()
  std::vector<const void*> distinct_gradients_;  ///< as require_distinct_gradients() last saw them
  kernels::StagedArray<kernels::Mode> apply_modes_;
  std::unique_ptr<Exchange> exchange_, value_exchange_;
  kernels::ScratchMemory scratch_;  ///< of a refresh, then of the directions of one chunk at a time
  std::vector<std::unique_ptr<GroupStep>> group_steps_;
  std::vector<std::size_t> first_chunks_;  ///< per virtual group, and the end
  std::vector<std::string> names_;         ///< of virtual groups, as profiler ranges
  std::unique_ptr<StepClock> clock_;
  kernels::Settled settled_;
};

}  // namespace shampoo
