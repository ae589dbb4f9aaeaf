// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/staged_array.h"
#include "shampoo/averaging/averaging.h"
#include "shampoo/averaging/value_averaging.h"
#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/update/block_chunks.h"
#include "shampoo/update/element_table.h"
#include "shampoo/update/group_state.h"

namespace shampoo {

using DirectionTransform = std::function<void(const DirectionBlock&)>;

/// What the virtual groups of a step share. [backend]
struct StepInputs {
  kernels::Tensors tensors = {};
  const double* gradient_scale = nullptr;  ///< see PassContext
  std::int64_t scale_stride = 0;
  double gradient_limit = __builtin_huge_val();
  const std::int32_t* proceed = nullptr;
  kernels::NonFiniteDirections* non_finite_directions = nullptr;
  const double* rate_factor = nullptr;  ///< see OptimizerOptions::learning_rate_factor
  void* direction = nullptr;            ///< of direction_bytes() of any of them
  void* exchange = nullptr;             ///< null: the values are updated, and nothing is sent
  StepClock* clock = nullptr;
  std::size_t first_chunk = 0;  ///< of the virtual group, see ChunkClock
};

/// The step on the blocks of one virtual group that this rank owns, whatever their kinds.
/// Statistics and refreshes are those of all blocks; directions are computed chunk by chunk.
class GroupStep {
 public:
  /// Blocks come stack by stack, in the order of the flat slots. `parameters` are all parameters of
  /// the optimizer, in a place that may change between calls. What a step reads goes into
  /// `columns`, which the caller gives memory and uploads, and which must outlive it, as `scratch`
  /// must, which refreshes use, and `transform`, which may be empty. `direction_limit`: bytes, see
  /// there.
  GroupStep(kernels::Backend& backend, kernels::StagedArrays& columns,
            kernels::ScratchMemory& scratch, const Recipe& recipe, std::vector<OwnedBlock> blocks,
            std::span<const RegisteredParameter> parameters, const DirectionTransform& transform,
            std::int64_t direction_limit);

  /// Masters and iterates <- values of the caller's tensors. Queued.
  void read_values(const kernels::Tensors& tensors);
  /// Copies the state of the blocks that `before`, of an earlier plan, has too. Queued.
  void adopt(const GroupStep& before);

  /// Host work of the next step: modes, coefficients, selections, due blocks.
  void prepare(std::span<const RegisteredParameter> parameters);
  /// Whether the prepared step refreshes a block.
  bool refreshes() const { return preconditioner_->refreshes(); }
  /// Whether it needs more roots of one size than the steps of an interval usually do.
  bool exceeds_usual() const { return preconditioner_->exceeds_usual(); }
  /// Name of the solver if the prepared refresh waits for the backend; empty otherwise.
  std::string_view waiting_solver() const { return preconditioner_->waiting_solver(); }

  /// What enqueue() works on in the prepared step. Replaces that of the call before.
  StepContext context(const StepInputs& inputs, Refreshing refreshing, Statistics& statistics);
  /// Queues the prepared step, up to the updates in this rank's segment, or of the values. Waits,
  /// and counts the outcomes of the refresh, where waiting_solver() is not empty.
  void enqueue(StepContext step);
  /// Counts the outcomes of a queued refresh, once the step is known to have run.
  void collect(Statistics& statistics) { preconditioner_->collect(statistics); }
  /// Names a block whose refreshes failed more often in a row than the recipe tolerates; empty:
  /// none.
  std::string exhausted_block(std::span<const RegisteredParameter> parameters) const;

  /// Recomputes the derived slots of these blocks, ascending, from the others. Waits.
  void recompute(std::span<const std::size_t> blocks,
                 std::span<const RegisteredParameter> parameters, Statistics& statistics);
  /// Consecutive failed refreshes of a block.
  int failures(std::size_t block) const { return preconditioner_->failures(block); }
  void set_failures(std::size_t block, int failures) {
    preconditioner_->set_failures(block, failures);
  }

  std::span<const OwnedBlock> blocks() const { return blocks_; }
  std::span<const Chunk> chunks() const { return chunks_; }
  const std::vector<std::int64_t>& extent(std::size_t block) const { return extents_[block]; }
  const Recipe& recipe() const { return recipe_; }
  const GroupState& state() const { return *state_; }
  /// [backend] Z, or the average of values; null unless there are evaluation values.
  void* evaluation_source() const;
  std::int64_t workspace_bytes() const;
  StoredDirection stored() const { return stored_; }
  /// Of the longest chunk's P, for which StepInputs has memory; 0 unless it stores all.
  std::size_t direction_bytes() const;

 private:
  void cut_chunks(std::span<const RegisteredParameter> parameters, std::int64_t direction_limit);
  void build_tables(kernels::StagedArrays& columns,
                    std::span<const RegisteredParameter> parameters);
  void build_stacks(std::span<const RegisteredParameter> parameters);
  ChunkContext chunk_context(std::size_t c, const StepInputs& inputs) const;
  void select(const OwnedBlock& block, std::size_t b);

  void filter_gradient(ChunkContext& chunk);
  void graft_norm(ChunkContext& chunk);
  void scale_direction(ChunkContext& chunk);
  void decay_and_average(ChunkContext& chunk);
  void transform_blocks(const ChunkContext& chunk);

  kernels::Backend& backend_;
  const Recipe& recipe_;
  Type arithmetic_;
  const DirectionTransform& transform_;
  bool measures_;  ///< a transform or a scaling reads the directions
  StoredDirection stored_;
  std::vector<OwnedBlock> blocks_;
  std::vector<Chunk> chunks_;
  std::vector<std::vector<std::int64_t>> extents_;  ///< per block
  std::vector<std::int64_t> turns_;                 ///< per block, see PreconditionerContext
  std::unique_ptr<GroupState> state_;

  std::vector<ElementTable> tables_;    ///< per chunk, and count from its beginning
  std::vector<kernels::Stack> stacks_;  ///< first blocks count from the beginning of the chunk
  std::vector<ChunkContext> contexts_;  ///< per chunk, of the step that is queued
  kernels::Buffer grafting_norms_, direction_norms_, direction_sums_, value_norms_;
  kernels::StagedArray<kernels::Mode> modes_;
  kernels::StagedArray<kernels::Coefficients> coefficients_;
  kernels::StagedArray<std::int32_t> present_list_, preconditioned_list_;
  std::vector<kernels::Selection> present_, preconditioned_;  ///< per stack
  std::vector<BlockStep> block_steps_;                        ///< of the prepared step
  std::span<const RegisteredParameter> parameters_;           ///< of the prepared step

  std::unique_ptr<GroupPreconditioner> preconditioner_;
  std::unique_ptr<GroupPreconditioner> grafting_;         ///< null: none
  std::unique_ptr<GroupAveraging> averaging_;             ///< null: none
  std::unique_ptr<GroupValueAveraging> value_averaging_;  ///< null: none
};

}  // namespace shampoo
