// SPDX-License-Identifier: Apache-2.0
#include "shampoo/group_optimizer.h"

#include <algorithm>
#include <map>
#include <utility>

#include "shampoo/coefficients.h"

namespace shampoo {

using kernels::Mode;

namespace {

const RootInverse& root_inverse(const Recipe& recipe) {
  return std::get<RootInverse>(recipe.preconditioner);
}

kernels::Graft graft_of(const Recipe& recipe) {
  if (!recipe.grafting) return kernels::Graft::none;
  return std::holds_alternative<Sgd>(*recipe.grafting) ? kernels::Graft::identity
                                                       : kernels::Graft::diagonal;
}

}  // namespace

GroupOptimizer::GroupOptimizer(Backend& backend, const Recipe& recipe,
                               std::vector<OwnedBlock> blocks,
                               std::span<const TrainedParameter> parameters)
    : backend_(backend),
      recipe_(recipe),
      arithmetic_(arithmetic_type(recipe)),
      blocks_(std::move(blocks)),
      failures_(blocks_.size(), 0) {
  build_tables(parameters);
  build_stacks();

  std::vector<std::int64_t> sides;
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    for (int k = 0; k < order(b); ++k)
      if (has_factor(recipe_, order(b), k)) sides.push_back(extents_[b][k]);
  const RootInverse& preconditioner = root_inverse(recipe_);
  solver_ = std::make_unique<kernels::InverseRoot>(backend_, arithmetic_, preconditioner.solver,
                                                   preconditioner.trace_scaling.value_or(0));
  solver_->reserve(sides);
  jobs_.resize(sides.size());
  job_blocks_.resize(sides.size());
  const std::int64_t largest = sides.empty() ? 0 : *std::max_element(sides.begin(), sides.end());
  backend_.reserve(stacks_, arithmetic_, largest);
}

void GroupOptimizer::build_tables(std::span<const TrainedParameter> parameters) {
  std::vector<StatePlace> places;
  std::int64_t masters = 0, elements = 0;
  for (const OwnedBlock& owned : blocks_) {
    const TrainedParameter& parameter = parameters[owned.parameter];
    const grouping::Box& box = parameter.boxes[owned.index];
    const Type type = parameter.parameter().value.type;
    kernels::Block block = shipped_block(parameter, owned.parameter, owned.segment);
    if (has_master(type))
      block.master = std::exchange(masters, masters + grouping::numel(box.extent));
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
  modes_ = kernels::Mirror<Mode>(backend_, count);
  coefficients_ = kernels::Mirror<kernels::Coefficients>(backend_, count);
  present_list_ = kernels::Mirror<std::int32_t>(backend_, count);
  preconditioned_list_ = kernels::Mirror<std::int32_t>(backend_, count);
}

void GroupOptimizer::build_stacks() {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (blocks_[b].in_stack == 0) {
      kernels::Stack stack;
      stack.extent = extents_[b];
      stack.first_block = static_cast<std::int64_t>(b);
      stack.factors = state_->factors(blocks_[b].stack);
      stacks_.push_back(std::move(stack));
    }
    ++stacks_.back().count;
  }
  for (const kernels::Stack& stack : stacks_) {
    present_.push_back({present_list_.data() + stack.first_block, 0});
    preconditioned_.push_back({preconditioned_list_.data() + stack.first_block, 0});
  }
}

void GroupOptimizer::read_values(const kernels::Tensors& tensors) {
  if (void* const masters = state_->flat(master_slot))
    backend_.read_values(table_.elements(arithmetic_, tensors), masters);
}

void GroupOptimizer::adopt(const GroupOptimizer& before) {
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

void GroupOptimizer::prepare(std::span<const TrainedParameter> parameters) {
  job_count_ = 0;
  for (kernels::Selection& selection : present_) selection.count = 0;
  for (kernels::Selection& selection : preconditioned_) selection.count = 0;

  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const TrainedParameter& parameter = parameters[blocks_[b].parameter];
    if (!parameter.present) {
      modes_.host[b] = Mode::absent;
      continue;
    }
    const std::int64_t step = parameter.steps + 1;
    modes_.host[b] = mode_of(recipe_, step);
    const bool same = b > 0 && blocks_[b].parameter == blocks_[b - 1].parameter;
    coefficients_.host[b] =
        same ? coefficients_.host[b - 1] : coefficients_of(recipe_, parameter.group->rates, step);
    select(blocks_[b], b, modes_.host[b]);
    if (is_due(recipe_.refresh, step, blocks_[b].phase)) add_jobs(b, parameter, step);
  }
  modes_.upload(backend_);
  coefficients_.upload(backend_);
  present_list_.upload(backend_);
  preconditioned_list_.upload(backend_);
}

void GroupOptimizer::select(const OwnedBlock& block, std::size_t b, Mode mode) {
  const auto add = [&](kernels::Selection& selection, kernels::Mirror<std::int32_t>& list) {
    const std::size_t first = b - static_cast<std::size_t>(block.in_stack);
    list.host[first + static_cast<std::size_t>(selection.count++)] =
        static_cast<std::int32_t>(block.in_stack);
  };
  add(present_[block.stack], present_list_);
  if (mode == Mode::preconditioned || mode == Mode::grafted)
    add(preconditioned_[block.stack], preconditioned_list_);
}

void GroupOptimizer::add_jobs(std::size_t b, const TrainedParameter& parameter, std::int64_t step) {
  const Rates& rates = parameter.group->rates;
  const double scale = 1 / factor_correction(recipe_, rates, step);
  for (int k = 0; k < order(b); ++k) {
    if (!has_factor(recipe_, order(b), k)) continue;
    job_blocks_[job_count_] = b;
    jobs_[job_count_++] = {.pair = state_->pair(static_cast<int>(b), k),
                           .side = extents_[b][k],
                           .exponent = exponent_of(root_inverse(recipe_), order(b), k),
                           .epsilon = rates.epsilon,
                           .scale = scale};
  }
}

void GroupOptimizer::enqueue(const StepInputs& inputs, Statistics& statistics) {
  const kernels::Elements elements = table_.elements(arithmetic_, inputs.tensors);
  const kernels::Phase phase{elements, modes_.data(), coefficients_.data(), inputs.gradient_scale,
                             inputs.proceed};
  void* const masters = state_->flat(master_slot);
  double* const graft_norms = static_cast<double*>(graft_norms_.data());
  double* const direction_norms = static_cast<double*>(direction_norms_.data());

  // L_k <- beta2 L_k + (1 - beta2) G x_{j != k} G
  if (recipe_.refresh.first) backend_.accumulate_factors(phase, stacks_, present_, masters);
  // R_k <- (L_k + epsilon I)^(-1/p)
  if (refreshes()) refresh(statistics);
  // V <- beta2 V + (1 - beta2) G^2 ; M <- lerp(M, G, 1 - beta1) ; P <- F
  backend_.filter(phase, {.graft = graft_of(recipe_),
                          .masters = masters,
                          .first_moment = state_->flat(first_moment_slot),
                          .graft_moment = state_->flat(graft_moment_slot),
                          .direction = direction_.data(),
                          .graft_norms = graft_norms});
  // P <- P x_k R_k
  if (recipe_.refresh.first)
    backend_.precondition(phase, stacks_, preconditioned_, direction_.data(), direction_norms);
  // P <- P |graft(F)| / |P| + decay W ; B <- momentum B + P ; segment <- -lr P
  const auto* momentum = std::get_if<Momentum>(&recipe_.averaging);
  backend_.update(phase, {.has_momentum = momentum != nullptr,
                          .nesterov = momentum && momentum->nesterov,
                          .direction = direction_.data(),
                          .graft_norms = graft_norms,
                          .direction_norms = direction_norms,
                          .masters = masters,
                          .momentum = state_->flat(momentum_slot),
                          .segment = inputs.exchange});
}

void GroupOptimizer::refresh(Statistics& statistics) {
  const std::span<kernels::RootJob> jobs(jobs_.data(), job_count_);
  solver_->solve(jobs);

  for (std::size_t j = 0; j < jobs.size();) {
    const std::size_t b = job_blocks_[j];
    bool complete = true;
    for (; j < jobs.size() && job_blocks_[j] == b; ++j) {
      using enum kernels::Outcome;
      const kernels::Outcome outcome = jobs[j].outcome;
      complete = complete && outcome != failed;
      statistics.refreshes += outcome != failed;
      statistics.by_eigenvalues += outcome == by_eigenvalues;
      statistics.jittered += outcome == jittered;
      statistics.in_float64 += outcome == in_float64;
      statistics.by_jacobi += outcome == by_jacobi;
      statistics.kept_roots += outcome == failed;
      statistics.raised_eigenvalues += jobs[j].raised;
    }
    failures_[b] = complete ? 0 : failures_[b] + 1;
  }
}

void GroupOptimizer::recompute_roots(std::span<const std::size_t> blocks,
                                     std::span<const TrainedParameter> parameters,
                                     Statistics& statistics) {
  job_count_ = 0;
  for (const std::size_t b : blocks) {
    const TrainedParameter& parameter = parameters[blocks_[b].parameter];
    add_jobs(b, parameter, parameter.steps);
  }
  if (refreshes()) refresh(statistics);
  job_count_ = 0;
}

void GroupOptimizer::restore(std::size_t block, int failures, std::int64_t phase) {
  failures_[block] = failures;
  blocks_[block].phase = phase;
}

std::string GroupOptimizer::exhausted_block(std::span<const TrainedParameter> parameters) const {
  const int tolerated = root_inverse(recipe_).tolerated_failures;
  for (std::size_t j = 0; j < job_count_; ++j) {
    const std::size_t b = job_blocks_[j];
    if (failures_[b] <= tolerated) continue;
    return parameters[blocks_[b].parameter].parameter().name + ", block " +
           std::to_string(blocks_[b].index) + ": no root could be computed in " +
           std::to_string(failures_[b]) + " refreshes in a row; its old roots are still in use";
  }
  return {};
}

std::int64_t GroupOptimizer::workspace_bytes() const {
  const std::size_t buffers = direction_.bytes() + graft_norms_.bytes() + direction_norms_.bytes() +
                              modes_.bytes() + coefficients_.bytes() + present_list_.bytes() +
                              preconditioned_list_.bytes();
  return static_cast<std::int64_t>(buffers) + table_.bytes() + solver_->workspace_bytes();
}

}  // namespace shampoo
