// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/group_step.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "grouping/stack.h"
#include "kernels/range.h"
#include "shampoo/update/coefficients.h"

namespace shampoo {

using kernels::Mode;

namespace {

std::optional<kernels::ElementwiseDirection> grafting_of(const Recipe& recipe, const State& state) {
  using enum kernels::DirectionRule;
  if (!recipe.grafting) return std::nullopt;
  return kernels::ElementwiseDirection{
      .rule = std::holds_alternative<Sgd>(*recipe.grafting) ? identity : diagonal,
      .second_moment = state.flat(graft_moment_slot)};
}

kernels::AveragingRule averaging_of(const Recipe& recipe) {
  const auto* momentum = std::get_if<Momentum>(&recipe.averaging);
  if (!momentum) return kernels::AveragingRule::none;
  return momentum->nesterov ? kernels::AveragingRule::nesterov : kernels::AveragingRule::momentum;
}

}  // namespace

GroupStep::GroupStep(Backend& backend, kernels::StagedArrays& columns, const Recipe& recipe,
                     std::vector<OwnedBlock> blocks,
                     std::span<const RegisteredParameter> parameters)
    : backend_(backend),
      columns_(columns),
      recipe_(recipe),
      arithmetic_(arithmetic_type(recipe)),
      blocks_(std::move(blocks)),
      failures_(blocks_.size(), 0) {
  build_tables(columns, parameters);
  build_stacks();

  build_solver(columns);
}

void GroupStep::build_tables(kernels::StagedArrays& columns,
                             std::span<const RegisteredParameter> parameters) {
  std::vector<StatePlace> places;
  std::int64_t masters = 0, elements = 0;
  for (const OwnedBlock& owned : blocks_) {
    const RegisteredParameter& parameter = parameters[owned.parameter];
    const grouping::Box& box = parameter.boxes[owned.index];
    const Type type = parameter.parameter().value.type;
    kernels::Block block = shipped_block(parameter, owned.parameter, owned.segment);
    if (has_master(type))
      block.master = std::exchange(masters, masters + grouping::flat_stride(box.extent));
    table_.append(parameter, box, block, owned.flat);
    places.push_back({box.extent, type, owned.stack, owned.in_stack, owned.flat, block.master});
    extents_.push_back(box.extent);
    elements = owned.flat + grouping::numel(box.extent);
  }
  table_.upload(backend_);
  state_ = std::make_unique<State>(backend_, recipe_, std::move(places));

  const std::size_t count = blocks_.size();
  direction_ = kernels::Buffer(backend_, static_cast<std::size_t>(elements) * size_of(arithmetic_));
  graft_norms_ = kernels::Buffer(backend_, count * sizeof(double));
  direction_norms_ = kernels::Buffer(backend_, count * sizeof(double));
  modes_ = columns.add<Mode>(count);
  coefficients_ = columns.add<kernels::Coefficients>(count);
  present_list_ = columns.add<std::int32_t>(count);
  preconditioned_list_ = columns.add<std::int32_t>(count);
}

void GroupStep::build_stacks() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].in_stack == 0) {
      kernels::Stack stack;
      stack.extent = extents_[b];
      stack.stride = grouping::flat_stride(extents_[b]);
      stack.first_block = static_cast<std::int64_t>(b);
      stack.factors = state_->factors(blocks_[b].stack);
      stacks_.push_back(std::move(stack));
    }
    ++stacks_.back().count;
  }
  present_.resize(stacks_.size());
  preconditioned_.resize(stacks_.size());
}

void GroupStep::read_values(const kernels::Tensors& tensors) {
  if (void* const masters = state_->flat(master_slot))
    backend_.read_values(table_.elements(arithmetic_, tensors), masters);
}

void GroupStep::adopt(const GroupStep& before) {
  std::map<std::pair<int, int>, int> places;
  for (std::size_t b = 0; b < before.blocks_.size(); ++b)
    places[{before.blocks_[b].parameter, before.blocks_[b].index}] = static_cast<int>(b);
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const auto found = places.find({blocks_[b].parameter, blocks_[b].index});
    if (found == places.end()) continue;
    state_->copy_block(static_cast<int>(b), before.state(), found->second);
    restore(b, before.failures_[found->second], before.blocks_[found->second].phase);
  }
}

void GroupStep::prepare(std::span<const RegisteredParameter> parameters) {
  job_count_ = 0;
  counted_ = false;
  for (std::size_t s = 0; s < stacks_.size(); ++s) {
    present_[s] = {present_list_.data() + stacks_[s].first_block, 0};
    preconditioned_[s] = {preconditioned_list_.data() + stacks_[s].first_block, 0};
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const RegisteredParameter& parameter = parameters[blocks_[b].parameter];
    if (!parameter.present) {
      modes_[b] = Mode::absent;
      continue;
    }
    const std::int64_t step = parameter.steps + 1;
    modes_[b] = mode_of(recipe_, step);
    const bool same = b > 0 && blocks_[b].parameter == blocks_[b - 1].parameter;
    coefficients_[b] =
        same ? coefficients_[b - 1] : coefficients_of(recipe_, parameter.group->rates, step);
    select(blocks_[b], b, modes_[b]);
    if (is_due(recipe_.refresh, step, blocks_[b].phase)) add_jobs(b, parameter, step);
  }
  solver_->place(jobs());
}

void GroupStep::select(const OwnedBlock& block, std::size_t b, Mode mode) {
  const auto add = [&](kernels::Selection& selection,
                       const kernels::StagedArray<std::int32_t>& list) {
    const std::size_t first = b - static_cast<std::size_t>(block.in_stack);
    list[first + static_cast<std::size_t>(selection.count++)] =
        static_cast<std::int32_t>(block.in_stack);
  };
  add(present_[block.stack], present_list_);
  if (mode == Mode::preconditioned) add(preconditioned_[block.stack], preconditioned_list_);
}

void GroupStep::enqueue(const StepInputs& inputs, Refreshing refreshing, Statistics& statistics) {
  const kernels::TileTable elements = table_.elements(arithmetic_, inputs.tensors);
  const kernels::PassContext phase{elements, modes_.data(), coefficients_.data(),
                                   inputs.gradient_scale, inputs.proceed};
  void* const masters = state_->flat(master_slot);
  double* const graft_norms = static_cast<double*>(graft_norms_.data());
  double* const direction_norms = static_cast<double*>(direction_norms_.data());

  kernels::Range range(backend_, "factors");
  // L_k <- beta2 L_k + (1 - beta2) G x_{j != k} G
  if (recipe_.refresh.first) backend_.accumulate_factors(phase, stacks_, present_, masters);
  // R_k <- (L_k + epsilon I)^(-1/p)
  range.next("roots");
  refresh(refreshing, inputs.proceed, statistics);
  range.next("filter");
  // V <- beta2 V + (1 - beta2) G^2 ; M <- lerp(M, G, 1 - beta1) ; P <- F
  backend_.filter(phase, {.masters = masters,
                          .first_moment = state_->flat(first_moment_slot),
                          .preconditioner = {},
                          .grafting = grafting_of(recipe_, *state_),
                          .direction = direction_.data(),
                          .grafting_norms = recipe_.grafting ? graft_norms : nullptr});
  range.next("precondition");
  // P <- P x_k R_k
  if (recipe_.refresh.first)
    backend_.precondition(phase, stacks_, preconditioned_, direction_.data(), direction_norms);
  range.next("update");
  // P <- P |graft(F)| / |P| + decay W ; B <- momentum B + P ; segment <- -lr P
  backend_.update(phase, {.averaging = averaging_of(recipe_),
                          .averaging_state = state_->flat(momentum_slot),
                          .direction = direction_.data(),
                          .grafting_norms = recipe_.grafting ? graft_norms : nullptr,
                          .direction_norms = direction_norms,
                          .masters = masters,
                          .segment = inputs.exchange});
}

std::int64_t GroupStep::workspace_bytes() const {
  const std::size_t buffers = direction_.bytes() + graft_norms_.bytes() + direction_norms_.bytes();
  return static_cast<std::int64_t>(buffers) + table_.bytes() + solver_->workspace_bytes();
}

}  // namespace shampoo
