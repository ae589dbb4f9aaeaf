// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "distributor/segment_header.h"
#include "kernels/range.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

using kernels::Mode;

Engine::Engine(kernels::Backend& backend, Communicator& communicator,
               const OptimizerOptions& options, std::span<const Group* const> added,
               const Engine* before, TraceFile* trace)
    : backend_(backend),
      communicator_(communicator),
      options_(options),
      columns_(backend),
      settled_(backend) {
  if (before) {
    parameters_ = before->parameters_;
    groups_ = before->groups_;
    first_rows_ = before->first_rows_;
    plan_ = before->plan_;
    scan_type_ = before->scan_type_;
  }
  register_groups(added);
  build_tables();
  build_group_steps(before);
  const bool measures = backend.is_immediate() || options.time_phases || trace != nullptr;
  clock_ = std::make_unique<StepClock>(backend_, first_chunks_, measures, trace);
}

int Engine::row(const grouping::Member& member) const {
  return first_rows_[member.group] + member.parameter;
}

void Engine::find_present() {
  for (RegisteredParameter& registered : parameters_)
    registered.present =
        registered.parameter().gradient.data != nullptr && !registered.boxes.empty();
  tensors_.set_gradients(parameters_);
}

void Engine::prepare() {
  find_present();
  for (RegisteredParameter& registered : parameters_) {
    registered.read_rates();
    registered.averaging_weight =
        registered.present ? averaging_weight(registered.group->recipe(), registered.rates) : 0;
  }
  const std::span<const kernels::Block> blocks = apply_table_.blocks();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    apply_modes_[b] = parameters_[blocks[b].tensor].present ? Mode::preconditioned : Mode::absent;
  for (const auto& group : group_steps_) group->prepare(parameters_);
}

std::int64_t Engine::absent_gradients() const {
  return std::ranges::count_if(parameters_, [](const RegisteredParameter& registered) {
    return !registered.present && !registered.boxes.empty();
  });
}

void Engine::require_gradients() const {
  const auto has_or_had = [](const RegisteredParameter& registered) {
    return registered.present || registered.steps > 0;
  };
  if (groups_.empty())
    throw std::logic_error("step: the optimizer has no group yet; call add_group() first");
  if (absent_gradients() > 0 && std::ranges::none_of(parameters_, has_or_had))
    throw std::invalid_argument(
        "no parameter has a gradient: set Parameter::gradient, or call Group::set_gradient() "
        "before the step");
}

std::vector<double> Engine::value_norms() {
  ElementTable table;
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (!parameters_[p].thawed) table.append_whole(parameters_[p].parameter(), static_cast<int>(p));
  table.read_values_as_gradients();
  table.upload(backend_);
  kernels::Tensors tensors = tensors_.tensors();
  tensors.gradients = tensors.values;
  tensors.gradient_types = tensors.value_types;
  const kernels::Buffer scale(backend_, sizeof(double)),
      result(backend_, sizeof(kernels::ScanResult));
  const double one = 1;
  backend_.upload(scale.data(), &one, sizeof(one));
  backend_.scan(table.elements(Type::float64, tensors), static_cast<const double*>(scale.data()),
                false, static_cast<kernels::ScanResult*>(result.data()));
  return table.sums(backend_, parameters_.size());
}

void Engine::read_values() {
  for (const auto& group : group_steps_) group->read_values(tensors_.tensors());
}

bool Engine::refreshes() const {
  return std::any_of(group_steps_.begin(), group_steps_.end(),
                     [](const auto& group) { return group->refreshes(); });
}

std::string_view Engine::waiting_solver() const {
  for (const auto& group : group_steps_)
    if (const std::string_view solver = group->waiting_solver(); !solver.empty()) return solver;
  return {};
}

bool Engine::queues_refresh() const {
  return std::ranges::any_of(group_steps_, [](const auto& group) {
    return group->refreshes() && group->waiting_solver().empty();
  });
}

bool Engine::exceeds_usual() const {
  return std::ranges::any_of(group_steps_, [](const auto& group) {
    return group->exceeds_usual() && group->waiting_solver().empty();
  });
}

void Engine::scan(const double* gradient_scale, bool skips, kernels::ScanResult* result) {
  const PhaseRange range(*clock_, Phase::scan);
  backend_.scan(scan_table_.elements(scan_type_, tensors_.tensors()), gradient_scale, skips,
                result);
}

void Engine::clip_parameters(double max_norm, StepInputs& inputs) {
  auto* const scales = static_cast<double*>(gradient_scales_.data());
  backend_.scale_tensors(scan_table_.elements(scan_type_, tensors_.tensors()), max_norm,
                         inputs.gradient_scale, scales);
  inputs.gradient_scale = scales;
  inputs.scale_stride = 1;
}

void Engine::scale_gradients(const double* factor) {
  if (!written_table_) {
    written_table_ = std::make_unique<ElementTable>();
    for (std::size_t p = 0; p < parameters_.size(); ++p)
      if (!parameters_[p].thawed)
        written_table_->append_whole(parameters_[p].parameter(), static_cast<int>(p));
    written_table_->write_gradients_as_values();
    written_table_->upload(backend_);
  }
  find_present();
  columns_.upload();
  kernels::Tensors tensors = tensors_.tensors();
  tensors.values = const_cast<void* const*>(tensors.gradients);
  tensors.value_types = std::exchange(tensors.gradient_types, nullptr);
  tensors.gradients = nullptr;
  backend_.accumulate(written_table_->elements(Type::float64, tensors), factor, factor);
}

void Engine::require_distinct_gradients(const std::string& call) {
  const auto address = [](const RegisteredParameter& registered) -> const void* {
    return registered.thawed ? nullptr : registered.parameter().gradient.data;
  };
  if (std::ranges::equal(parameters_, distinct_gradients_, {}, address)) return;
  std::vector<const Parameter*> written;
  for (const RegisteredParameter& registered : parameters_)
    if (!registered.thawed) written.push_back(&registered.parameter());
  shampoo::require_distinct_gradients(call, written);
  distinct_gradients_.resize(parameters_.size());
  std::ranges::transform(parameters_, distinct_gradients_.begin(), address);
}

void Engine::compute(StepInputs inputs, Refreshing refreshing, Statistics& statistics) {
  inputs.tensors = tensors_.tensors();
  inputs.clock = clock_.get();
  inputs.rate_factor = options_.learning_rate_factor;
  if (communicator_.size() > 1) inputs.exchange = exchange_->data();
  inputs.direction = scratch_.data();
  for (std::size_t v = 0; v < names_.size(); ++v) {
    const kernels::Range range(backend_, names_[v].c_str());
    inputs.first_chunk = first_chunks_[v];
    group_steps_[v]->enqueue(group_steps_[v]->context(inputs, refreshing, statistics));
  }
}

void Engine::collect(Statistics& statistics) {
  for (const auto& group : group_steps_) group->collect(statistics);
}

void Engine::apply(const std::int32_t* proceed) {
  const PhaseRange range(*clock_, Phase::apply);
  backend_.apply(apply_table_.elements(Type::float64, tensors_.tensors()), apply_modes_.data(),
                 exchange_->data(), proceed);
}

void Engine::count_step() {
  for (RegisteredParameter& registered : parameters_) {
    registered.steps += registered.present;
    registered.averaging_weight_sum += registered.averaging_weight;
  }
}

std::string Engine::exhausted_block() const {
  for (const auto& group : group_steps_)
    if (std::string block = group->exhausted_block(parameters_); !block.empty()) return block;
  return {};
}

std::string_view Engine::name(int row) const {
  return row < 0 ? std::string_view() : parameters_[row].parameter().name;
}

}  // namespace shampoo
