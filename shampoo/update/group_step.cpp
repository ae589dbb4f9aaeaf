// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/group_step.h"

#include <algorithm>
#include <map>
#include <utility>

#include "grouping/stack.h"
#include "shampoo/transforms/projection.h"
#include "shampoo/transforms/update_scaling.h"
#include "shampoo/update/coefficients.h"
#include "shampoo/update/refresh_schedule.h"

namespace shampoo {

using kernels::Mode;

// Numbers are those of shampoo/README.md, which explains every symbol.
void GroupStep::enqueue(StepContext step) {
  // (3) L_k <- beta2 L_k + w G x_{j != k} G                                [Gupta 2018, Alg. 2]
  preconditioner_->accumulate(step);
  // (4) V <- beta2 V + w G^2                                              [Kingma 2015, Alg. 1]
  if (grafting_) grafting_->accumulate(step);
  // (5) R_k <- (L_k / c2 + epsilon I)^(-e_k), for blocks that are due               [Anil 2020]
  //     before there is any P, which takes the memory of the solver's matrices
  preconditioner_->refresh(step);
  for (ChunkContext& chunk : step.chunks) {
    // (6) F <- lerp(M, G, 1 - beta3) / c1 ; M <- lerp(M, G, 1 - beta1)    [Kingma 2015, Alg. 1]
    filter_gradient(chunk);
    // (7) P <- F x_1 R_1 ... x_o R_o                                       [Gupta 2018, Alg. 2]
    if (stored_ != StoredDirection::block) preconditioner_->apply(chunk);
    // (8) P <- P |graft(F)| / (|P| + 1e-16)                          [Agarwal 2020], [Shi 2023]
    if (grafting_) graft_norm(chunk);
    // (14) P <- transform(P), scaled by its norm          [Shazeer 2018], [You 2017], [You 2020]
    if (measures_) scale_direction(chunk);
    // (9) P <- P + alpha W                                                    [Loshchilov 2019]
    // (10) B <- momentum B + (1 - dampening) P ; P <- B                           [Polyak 1964]
    //      or Z <- Z - learning_rate P, U <- ...         [Defazio 2024, Alg. 1], [Defazio 2025b]
    // (11) U <- -learning_rate P, or W - learning_rate P, into the owner's segment; on one rank
    //      (12), too. Where not all P are stored, (6) and (7) are part of this pass.
    // (15) W <- its projection, with the new W
    // (13) A <- A + weight (W - A), with the new W            [Polyak 1992], [Izmailov 2018]
    //      and W <- A                                                          [Zhang 2019]
    decay_and_average(chunk);
  }
}

void GroupStep::filter_gradient(ChunkContext& chunk) {
  if (stored_ != StoredDirection::all || filters_gradient(recipe_)) return;
  const PhaseRange range(chunk.clock, Phase::filter);
  backend_.filter(chunk.pass, chunk.gradients);
}

void GroupStep::graft_norm(ChunkContext& chunk) {
  chunk.update.grafting_norms = chunk.grafting_norms;
}

void GroupStep::scale_direction(ChunkContext& chunk) {
  const PhaseRange range(chunk.clock, Phase::update);
  if (transform_) {
    if (chunk.update.grafting_norms != nullptr)
      backend_.graft_directions(chunk.pass, chunk.update, chunk.gradients.direction);
    chunk.update.grafting_norms = nullptr;
    transform_blocks(chunk);
  }
  chunk.update.scaling = scaling_of(recipe_);
  auto* const sums =
      static_cast<kernels::DirectionSums*>(direction_sums_.data()) + chunk.place.first_block;
  backend_.measure_directions(chunk.pass, chunk.update, sums);
  chunk.update.scaling.sums = sums;
}

void GroupStep::transform_blocks(const ChunkContext& chunk) {
  const auto size = static_cast<std::int64_t>(size_of(arithmetic_));
  for (std::size_t b = chunk.place.first_block; b < chunk.place.end_block; ++b) {
    if (modes_[b] == Mode::absent) continue;
    const OwnedBlock& block = blocks_[b];
    const RegisteredParameter& parameter = parameters_[block.parameter];
    const std::int64_t first = block.flat - chunk.place.first_element;
    transform_({.parameter = parameter.parameter(),
                .box = parameter.boxes[block.index],
                .type = arithmetic_,
                .data = static_cast<char*>(chunk.gradients.direction) + first * size,
                .elements = grouping::numel(extents_[b])});
  }
}

void GroupStep::decay_and_average(ChunkContext& chunk) {
  const PhaseRange range(chunk.clock, Phase::update);
  if (averaging_) averaging_->apply(chunk);
  if (value_averaging_) value_averaging_->apply(chunk);
  switch (stored_) {
    case StoredDirection::all:
      return backend_.update(chunk.pass, chunk.update);
    case StoredDirection::block:
      return preconditioner_->apply_and_update(chunk);
    case StoredDirection::none:
      return backend_.filter_and_update(chunk.pass, chunk.gradients, chunk.update);
  }
}

StepContext GroupStep::context(const StepInputs& inputs, Refreshing refreshing,
                               Statistics& statistics) {
  contexts_.clear();
  for (std::size_t c = 0; c < chunks_.size(); ++c) contexts_.push_back(chunk_context(c, inputs));
  return {contexts_, contexts_.front().clock, refreshing, statistics};
}

ChunkContext GroupStep::chunk_context(std::size_t c, const StepInputs& inputs) const {
  const Chunk& chunk = chunks_[c];
  void* const masters = state_->flat(master_slot);
  const auto norms = [&](const kernels::Buffer& all) {
    return static_cast<double*>(all.data()) + chunk.first_block;
  };
  ChunkContext context{
      .place = chunk,
      .clock = {*inputs.clock, inputs.first_chunk + c},
      .pass = {tables_[c].elements(arithmetic_, inputs.tensors), modes_.data() + chunk.first_block,
               coefficients_.data() + chunk.first_block, inputs.gradient_scale, inputs.proceed,
               inputs.scale_stride, inputs.gradient_limit},
      .present = {},
      .preconditioned = {},
      .grafting_norms = norms(grafting_norms_),
      .direction_norms = stored_ == StoredDirection::none ? nullptr : norms(direction_norms_),
      .gradients = {.masters = masters, .direction = inputs.direction},
      .update = {.direction = inputs.direction,
                 .non_finite = inputs.non_finite_directions,
                 .masters = masters,
                 .segment = inputs.exchange,
                 .rate_factor = inputs.rate_factor}};
  context.present = context.of(present_);
  context.preconditioned = context.of(preconditioned_);
  context.gradients.first_moment = context.elements(state_->flat(first_moment_slot));
  context.update.direction_norms = context.direction_norms;
  context.update.projection = projection_of(recipe_);
  if (value_norms_.data() != nullptr) context.update.projection.squared_norms = norms(value_norms_);
  return context;
}

std::size_t GroupStep::direction_bytes() const {
  if (stored_ != StoredDirection::all) return 0;
  const auto longest = std::ranges::max(chunks_, {}, &Chunk::elements);
  return static_cast<std::size_t>(longest.elements()) * size_of(arithmetic_);
}

void GroupStep::read_values(const kernels::Tensors& tensors) {
  void* const masters = state_->flat(master_slot);
  if (!masters && !evaluation_source()) return;
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    backend_.read_values(tables_[c].elements(arithmetic_, tensors), masters,
                         elements_of(evaluation_source(), arithmetic_, chunks_[c]));
}

void* GroupStep::evaluation_source() const {
  if (value_averaging_) return value_averaging_->average();
  return averaging_ ? averaging_->iterate() : nullptr;
}

void GroupStep::adopt(const GroupStep& before) {
  std::map<std::pair<int, int>, int> places;
  for (std::size_t b = 0; b < before.blocks_.size(); ++b)
    places[{before.blocks_[b].parameter, before.blocks_[b].index}] = static_cast<int>(b);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const auto found = places.find({blocks_[b].parameter, blocks_[b].index});
    if (found == places.end()) continue;
    state_->copy_block(static_cast<int>(b), before.state(), found->second);
    set_failures(b, before.failures(static_cast<std::size_t>(found->second)));
  }
}

void GroupStep::prepare(std::span<const RegisteredParameter> parameters) {
  parameters_ = parameters;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].in_stack == 0) {
      present_[blocks_[b].stack] = {present_list_.data() + b, 0};
      preconditioned_[blocks_[b].stack] = {preconditioned_list_.data() + b, 0};
    }
    const RegisteredParameter& parameter = parameters[blocks_[b].parameter];
    block_steps_[b] = {};
    modes_[b] = Mode::absent;
    if (!parameter.present) continue;
    const std::int64_t step = parameter.steps + 1;
    const Rates& rates = parameter.rates;
    block_steps_[b] = {
        .step = step, .rates = &rates, .due = is_due(recipe_, step, blocks_[b].phase)};
    const bool preconditions = acts_on(recipe_, extents_[b]) && is_preconditioned(recipe_, step);
    modes_[b] = preconditions ? Mode::preconditioned : Mode::unpreconditioned;
    select(blocks_[b], b);
    if (value_averaging_) value_averaging_->prepare(b, step);
    if (b > 0 && blocks_[b].parameter == blocks_[b - 1].parameter) {
      coefficients_[b] = coefficients_[b - 1];
      continue;
    }
    kernels::Coefficients& coefficients = coefficients_[b] = coefficients_of(recipe_, rates, step);
    preconditioner_->set_coefficients(rates, step, coefficients);
    if (grafting_) grafting_->set_coefficients(rates, step, coefficients);
    if (averaging_)
      averaging_->set_coefficients(
          {.rates = rates,
           .step = step,
           .weight = parameter.averaging_weight,
           .weight_sum = parameter.averaging_weight_sum + parameter.averaging_weight},
          coefficients);
  }
  preconditioner_->prepare(block_steps_);
}

void GroupStep::select(const OwnedBlock& block, std::size_t b) {
  const auto add = [&](kernels::Selection& selection,
                       const kernels::StagedArray<std::int32_t>& list) {
    const std::size_t first = b - static_cast<std::size_t>(block.in_stack);
    list[first + static_cast<std::size_t>(selection.count++)] =
        static_cast<std::int32_t>(block.in_stack);
  };
  add(present_[block.stack], present_list_);
  if (modes_[b] == Mode::preconditioned) add(preconditioned_[block.stack], preconditioned_list_);
}

void GroupStep::recompute(std::span<const std::size_t> blocks,
                          std::span<const RegisteredParameter> parameters, Statistics& statistics) {
  std::vector<BlockStep> steps(blocks_.size());
  for (const std::size_t b : blocks) {
    const RegisteredParameter& parameter = parameters[blocks_[b].parameter];
    steps[b] = {.step = parameter.steps, .rates = &parameter.rates, .due = true};
  }
  preconditioner_->recompute(steps, statistics);
}

std::string GroupStep::exhausted_block(std::span<const RegisteredParameter> parameters) const {
  const std::int64_t exhausted = preconditioner_->exhausted_block();
  if (exhausted < 0) return {};
  const auto b = static_cast<std::size_t>(exhausted);
  return parameters[blocks_[b].parameter].parameter().name + ", block " +
         std::to_string(blocks_[b].index) + ": its preconditioner could not be refreshed " +
         std::to_string(failures(b)) + " times in a row and is still the old one";
}

std::int64_t GroupStep::workspace_bytes() const {
  const std::size_t buffers = grafting_norms_.bytes() + direction_norms_.bytes() +
                              direction_sums_.bytes() + value_norms_.bytes();
  std::int64_t bytes = static_cast<std::int64_t>(buffers) + preconditioner_->workspace_bytes();
  for (const ElementTable& table : tables_) bytes += table.bytes();
  return bytes;
}

}  // namespace shampoo
