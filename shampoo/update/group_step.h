// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/solvers/inverse_root.h"
#include "kernels/staged_array.h"
#include "shampoo/update/block_state.h"
#include "shampoo/update/element_table.h"

namespace shampoo {

/// What the virtual groups of a step share. [backend]
struct StepInputs {
  kernels::Tensors tensors = {};
  const double* gradient_scale = nullptr;
  const std::int32_t* proceed = nullptr;
  void* exchange = nullptr;
};

/// Which roots a queued step recomputes.
enum class Refreshing : std::uint8_t {
  none,
  due,   ///< those that are due in the prepared step
  fixed  ///< those that are due in the step that is prepared when it runs; by solvers that queue
};

/// Shampoo on the blocks of one virtual group that this rank owns.
class GroupStep {
 public:
  /// Blocks come stack by stack, in the order of the flat slots. `parameters` are all parameters of
  /// the optimizer, in a place that may change between calls. What a step reads goes into
  /// `columns`, which the caller gives memory and uploads, and which must outlive it.
  GroupStep(Backend& backend, kernels::StagedArrays& columns, const Recipe& recipe,
            std::vector<OwnedBlock> blocks, std::span<const RegisteredParameter> parameters);

  /// Masters <- values of the caller's tensors.
  void read_values(const kernels::Tensors& tensors);
  /// Takes over the state of the blocks that `before`, of an earlier plan, has too.
  void adopt(const GroupStep& before);

  /// Host work of the next step: modes, coefficients, selections, jobs.
  void prepare(std::span<const RegisteredParameter> parameters);
  /// Whether the prepared step recomputes roots.
  bool refreshes() const { return job_count_ > 0; }
  /// The solver that recomputes them with host steps; empty where there are none.
  std::string_view host_steps() const;
  bool refreshes_queued() const { return refreshes() && !solver_->waits(); }

  /// Queues the prepared step, up to the updates in this rank's segment. Waits where a refresh has
  /// host steps, whose outcomes it counts.
  void enqueue(const StepInputs& inputs, Refreshing refreshing, Statistics& statistics);
  /// Counts what came of a queued refresh, when the step is known to have run and not been refused.
  void collect(Statistics& statistics);
  /// Says which block failed more refreshes in a row than the recipe tolerates, as far as they have
  /// been counted since the step was prepared; empty: none.
  std::string exhausted_block(std::span<const RegisteredParameter> parameters) const;

  /// Computes the roots of these blocks from their factors as they are, ascending. Waits.
  void recompute_roots(std::span<const std::size_t> blocks,
                       std::span<const RegisteredParameter> parameters, Statistics& statistics);
  /// Takes over what a state dict says of a block.
  void restore(std::size_t block, int failures, std::int64_t phase);
  /// Refreshes in a row without all new roots.
  int failures(std::size_t block) const { return failures_[block]; }

  std::span<const OwnedBlock> blocks() const { return blocks_; }
  const State& state() const { return *state_; }
  std::int64_t workspace_bytes() const;

 private:
  void build_tables(kernels::StagedArrays& columns,
                    std::span<const RegisteredParameter> parameters);
  void build_stacks();
  void build_solver(kernels::StagedArrays& columns);
  void select(const OwnedBlock& block, std::size_t b, kernels::Mode mode);
  /// Adds the roots of a block at its parameter's `step`-th step.
  void add_jobs(std::size_t b, const RegisteredParameter& parameter, std::int64_t step);
  void refresh(Refreshing refreshing, const std::int32_t* proceed, Statistics& statistics);
  void count(Statistics& statistics);
  std::span<kernels::RootJob> jobs() { return {jobs_.data(), job_count_}; }
  int order(std::size_t b) const { return static_cast<int>(extents_[b].size()); }

  Backend& backend_;
  kernels::StagedArrays& columns_;
  const Recipe& recipe_;
  Type arithmetic_;
  std::vector<OwnedBlock> blocks_;
  std::vector<std::vector<std::int64_t>> extents_;  ///< per block
  std::unique_ptr<State> state_;

  ElementTable table_;
  std::vector<kernels::Stack> stacks_;
  kernels::Buffer direction_, graft_norms_, direction_norms_;
  kernels::StagedArray<kernels::Mode> modes_;
  kernels::StagedArray<kernels::Coefficients> coefficients_;
  kernels::StagedArray<std::int32_t> present_list_, preconditioned_list_;
  std::vector<kernels::Selection> present_, preconditioned_;  ///< per stack

  std::unique_ptr<kernels::InverseRoot> solver_;
  std::vector<kernels::RootJob> jobs_;
  std::vector<std::size_t> job_blocks_;
  std::size_t job_count_ = 0;
  bool counted_ = false;       ///< what came of the jobs
  std::vector<int> failures_;  ///< per block
};

}  // namespace shampoo
