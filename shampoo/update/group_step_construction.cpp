// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "grouping/stack.h"
#include "shampoo/transforms/projection.h"
#include "shampoo/transforms/update_scaling.h"
#include "shampoo/update/group_step.h"

namespace shampoo {

using kernels::Mode;

GroupStep::GroupStep(kernels::Backend& backend, kernels::StagedArrays& columns,
                     kernels::ScratchMemory& scratch, const Recipe& recipe,
                     std::vector<OwnedBlock> blocks,
                     std::span<const RegisteredParameter> parameters,
                     const DirectionTransform& transform, std::int64_t direction_limit)
    : backend_(backend),
      recipe_(recipe),
      arithmetic_(arithmetic_type(recipe)),
      transform_(transform),
      measures_(transform || scales_updates(recipe)),
      stored_(measures_ ? StoredDirection::all : stored_direction(recipe, backend)),
      blocks_(std::move(blocks)),
      grafting_norms_(backend, blocks_.size() * sizeof(double)),
      direction_norms_(backend, blocks_.size() * sizeof(double)),
      direction_sums_(backend, measures_ ? blocks_.size() * sizeof(kernels::DirectionSums) : 0),
      value_norms_(backend, projects_by_norm(recipe) ? blocks_.size() * sizeof(double) : 0),
      block_steps_(blocks_.size()) {
  cut_chunks(parameters, direction_limit);
  build_tables(columns, parameters);
  build_stacks(parameters);
  for (const OwnedBlock& owned : blocks_)
    turns_.push_back((owned.phase + parameters[owned.parameter].steps) % recipe_.refresh.every);
  const PreconditionerContext context{backend_, recipe_, extents_, turns_,  stacks_,
                                      chunks_,  stored_, *state_,  scratch, columns};
  preconditioner_ = make_preconditioner(context);
  grafting_ = make_grafting(context);
  averaging_ = make_averaging(recipe_, *state_);
  value_averaging_ = make_value_averaging(recipe_, *state_, columns, blocks_.size());
}

void GroupStep::cut_chunks(std::span<const RegisteredParameter> parameters,
                           std::int64_t direction_limit) {
  for (const OwnedBlock& owned : blocks_)
    extents_.push_back(parameters[owned.parameter].boxes[owned.index].extent);
  const std::int64_t end =
      blocks_.empty() ? 0 : blocks_.back().flat + grouping::flat_stride(extents_.back());
  const std::int64_t arrays = 1 + backend_.scratch_directions();
  const auto size = static_cast<std::int64_t>(size_of(arithmetic_));
  const bool all = stored_ == StoredDirection::all;
  chunks_ = cut_into_chunks(blocks_, end, all ? direction_limit / arrays / size : end);
  contexts_.reserve(chunks_.size());
}

void GroupStep::build_tables(kernels::StagedArrays& columns,
                             std::span<const RegisteredParameter> parameters) {
  std::vector<BlockPlacement> placements;
  std::int64_t masters = 0;
  for (const Chunk& chunk : chunks_) {
    ElementTable& table = tables_.emplace_back();
    for (std::size_t b = chunk.first_block; b < chunk.end_block; ++b) {
      OwnedBlock& owned = blocks_[b];
      const RegisteredParameter& parameter = parameters[owned.parameter];
      const grouping::Box& box = parameter.boxes[owned.index];
      const Type type = parameter.parameter().value.type;
      if (has_master(type))
        owned.master = std::exchange(masters, masters + grouping::flat_stride(box.extent));
      kernels::Block block = exchanged_block(parameter, owned.parameter, owned.segment);
      block.master = owned.master;
      table.append(parameter, box, block, owned.flat - chunk.first_element);
      placements.push_back(
          {box.extent, type, owned.stack, owned.in_stack, owned.flat, owned.master});
    }
    table.upload(backend_);
  }
  state_ = std::make_unique<GroupState>(backend_, recipe_, std::move(placements));

  const std::size_t count = blocks_.size();
  modes_ = columns.add<Mode>(count);
  coefficients_ = columns.add<kernels::Coefficients>(count);
  present_list_ = columns.add<std::int32_t>(count);
  preconditioned_list_ = columns.add<std::int32_t>(count);
}

void GroupStep::build_stacks(std::span<const RegisteredParameter> parameters) {
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    for (std::size_t b = chunks_[c].first_block; b < chunks_[c].end_block; ++b) {
      const std::size_t in_chunk = b - chunks_[c].first_block;
      if (blocks_[b].in_stack == 0) {
        kernels::Stack stack;
        stack.extent = extents_[b];
        stack.stride = grouping::flat_stride(extents_[b]);
        stack.first_block = static_cast<std::int64_t>(in_chunk);
        stack.gradients = {false, false, recipe_.weight_decay == WeightDecay::l2};
        stacks_.push_back(std::move(stack));
      }
      kernels::Stack& stack = stacks_.back();
      ++stack.count;
      const bool half = size_of(parameters[blocks_[b].parameter].parameter().gradient.type) == 2;
      const bool regular = tables_[c].blocks()[in_chunk].regular;
      stack.gradients.gathered |= !regular;
      stack.gradients.halves |= regular && half;
      stack.gradients.wider |= regular && !half;
    }
  present_.resize(stacks_.size());
  preconditioned_.resize(stacks_.size());
}

}  // namespace shampoo
