// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/engine.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "distributor/segment_header.h"
#include "grouping/plan_description.h"
#include "kernels/range.h"
#include "shampoo/state/state_names.h"
#include "shampoo/update/block_work.h"
#include "shampoo/update/evaluation_values.h"
#include "shampoo/update/refresh_schedule.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

using kernels::Mode;

Engine::Engine(kernels::Backend& backend, Communicator& communicator, bool merges,
               std::span<const Group* const> added, const Engine* before)
    : backend_(backend),
      communicator_(communicator),
      merges_(merges),
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
  build_virtual_groups(before);
}

void Engine::register_groups(std::span<const Group* const> added) {
  std::vector<grouping::PlannedGroup> planned;
  for (const Group* const group : added) {
    const int index = static_cast<int>(groups_.size());
    groups_.push_back(group);
    first_rows_.push_back(static_cast<int>(parameters_.size()));
    planned.push_back({.recipe = canonical_text(group->recipe()),
                       .parameters = {},
                       .interval = refresh_interval(group->recipe())});
    if (group->recipe().arithmetic == Arithmetic::float64) scan_type_ = Type::float64;
    if (!merges_) planned.back().recipe += " of group " + std::to_string(index);
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      RegisteredParameter registered{.group = group, .group_index = index, .index = i};
      cut(registered);
      const Parameter& parameter = registered.parameter();
      grouping::PlannedParameter entry{
          .name = parameter.name,
          .shape = registered.merged,
          .element_bytes =
              static_cast<std::int64_t>(size_of(wire_type(group->recipe(), parameter.value.type))),
          .blocks = {}};
      for (const grouping::Box& box : registered.boxes)
        entry.blocks.push_back(work_of(group->recipe(), box, parameter.value.type));
      planned.back().parameters.push_back(std::move(entry));
      parameters_.push_back(std::move(registered));
    }
  }
  check_names(parameters_);
  plan_ = plan_.groups.empty() ? grouping::plan(std::move(planned), communicator_.size())
                               : grouping::extend(std::move(plan_), std::move(planned));
}

int Engine::row(const grouping::Member& member) const {
  return first_rows_[member.group] + member.parameter;
}

void Engine::build_tables() {
  header_ = columns_.add<SegmentHeader>(1);
  permit_ = columns_.add<kernels::StepPermit>(1);
  tensors_ = TensorTable(columns_, parameters_.size());
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    scan_table_.append_whole(parameters_[p], static_cast<int>(p));
  scan_table_.upload(backend_);

  build_exchanges();
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v)
    for (std::size_t b = 0; b < plan_.blocks[v].size(); ++b) {
      const grouping::Block& planned = plan_.blocks[v][b];
      const int parameter = row(plan_.virtual_groups[v].members[planned.member]);
      const RegisteredParameter& registered = parameters_[parameter];
      apply_table_.append(registered, registered.boxes[planned.index],
                          exchanged_block(registered, parameter, segments_.blocks[v][b]), 0);
    }
  apply_table_.upload(backend_);
  apply_modes_ = columns_.add<Mode>(apply_table_.blocks().size());
}

void Engine::build_exchanges() {
  const auto bytes_of = [](const grouping::Segments& segments) {
    std::vector<std::int64_t> bytes;
    for (std::size_t r = 0; r + 1 < segments.begins.size(); ++r)
      bytes.push_back(segments.begins[r + 1] - segments.begins[r]);
    return bytes;
  };
  segments_ = grouping::segments(plan_, sizeof(SegmentHeader));
  const bool evaluates = std::ranges::any_of(
      groups_, [](const Group* group) { return averages_iterate(group->recipe()); });
  if (evaluates) value_segments_ = value_segments_of(plan_, groups_);
  exchange_ = std::make_unique<Exchange>(backend_, communicator_, bytes_of(segments_),
                                         evaluates ? value_segments_.begins.back() : 0);
  if (evaluates)
    value_exchange_ = std::make_unique<Exchange>(*exchange_, bytes_of(value_segments_));
}

std::vector<OwnedBlock> Engine::owned_blocks(int v) const {
  const std::vector<grouping::Block>& blocks = plan_.blocks[v];
  std::vector<OwnedBlock> owned;
  const auto stacks = grouping::stacks(plan_, v)[static_cast<std::size_t>(communicator_.rank())];
  for (std::size_t s = 0; s < stacks.size(); ++s)
    for (std::size_t i = 0; i < stacks[s].blocks.size(); ++i) {
      const auto b = static_cast<std::size_t>(stacks[s].blocks[i]);
      owned.push_back({.parameter = row(plan_.virtual_groups[v].members[blocks[b].member]),
                       .index = blocks[b].index,
                       .stack = static_cast<int>(s),
                       .in_stack = static_cast<std::int64_t>(i),
                       .flat = stacks[s].offset + static_cast<std::int64_t>(i) *
                                                      grouping::flat_stride(stacks[s].extent),
                       .segment = segments_.blocks[v][b],
                       .phase = blocks[b].phase});
    }
  return owned;
}

void Engine::build_virtual_groups(const Engine* before) {
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v) {
    const int first = plan_.virtual_groups[v].members.front().group;
    virtual_groups_.push_back(
        std::make_unique<GroupStep>(backend_, columns_, groups_[first]->recipe(),
                                    owned_blocks(static_cast<int>(v)), parameters_));
    names_.push_back("virtual group " + std::to_string(v));
  }
  columns_.allocate();
  tensors_.set_values(parameters_);
  columns_.upload();
  read_values();
  for (std::size_t v = 0; before && v < before->virtual_groups_.size(); ++v)
    virtual_groups_[v]->adopt(*before->virtual_groups_[v]);
  backend_.synchronize();
}

void Engine::prepare() {
  for (RegisteredParameter& registered : parameters_) {
    const Parameter& parameter = registered.parameter();
    registered.present = parameter.gradient.data != nullptr && !registered.boxes.empty();
    registered.averaging_weight =
        registered.present ? averaging_weight(registered.group->recipe(), registered.group->rates)
                           : 0;
  }
  tensors_.set_gradients(parameters_);
  const std::span<const kernels::Block> blocks = apply_table_.blocks();
  for (std::size_t b = 0; b < blocks.size(); ++b)
    apply_modes_[b] = parameters_[blocks[b].tensor].present ? Mode::preconditioned : Mode::absent;
  for (const auto& group : virtual_groups_) group->prepare(parameters_);
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
  if (absent_gradients() > 0 && std::ranges::none_of(parameters_, has_or_had))
    throw std::invalid_argument(
        "no parameter has a gradient: set Parameter::gradient, or call Group::set_gradient() "
        "before the step");
}

std::vector<double> Engine::value_norms() {
  ElementTable table;
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    table.append_whole(parameters_[p], static_cast<int>(p));
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
  for (const auto& group : virtual_groups_) group->read_values(tensors_.tensors());
}

bool Engine::refreshes() const {
  return std::any_of(virtual_groups_.begin(), virtual_groups_.end(),
                     [](const auto& group) { return group->refreshes(); });
}

std::string_view Engine::waiting_solver() const {
  for (const auto& group : virtual_groups_)
    if (const std::string_view solver = group->waiting_solver(); !solver.empty()) return solver;
  return {};
}

bool Engine::queues_refresh() const {
  return std::ranges::any_of(virtual_groups_, [](const auto& group) {
    return group->refreshes() && group->waiting_solver().empty();
  });
}

void Engine::scan(const StepInputs& inputs, bool skips, kernels::ScanResult* result) {
  const kernels::Range range(backend_, "scan");
  backend_.scan(scan_table_.elements(scan_type_, tensors_.tensors()), inputs.gradient_scale, skips,
                result);
}

void Engine::compute(StepInputs inputs, Refreshing refreshing, Statistics& statistics) {
  inputs.tensors = tensors_.tensors();
  if (communicator_.size() > 1) inputs.exchange = exchange_->data();
  for (std::size_t v = 0; v < virtual_groups_.size(); ++v) {
    const kernels::Range range(backend_, names_[v].c_str());
    GroupStep& group = *virtual_groups_[v];
    group.enqueue(group.context(inputs, refreshing, statistics));
  }
}

void Engine::collect(Statistics& statistics) {
  for (const auto& group : virtual_groups_) group->collect(statistics);
}

void Engine::apply(StepInputs inputs) {
  const kernels::Range range(backend_, "apply");
  backend_.apply(apply_table_.elements(Type::float64, tensors_.tensors()), apply_modes_.data(),
                 exchange_->data(), inputs.proceed);
}

void Engine::count_step() {
  for (RegisteredParameter& registered : parameters_) {
    registered.steps += registered.present;
    registered.averaging_weight_sum += registered.averaging_weight;
  }
}

std::string Engine::exhausted_block() const {
  for (const auto& group : virtual_groups_)
    if (std::string block = group->exhausted_block(parameters_); !block.empty()) return block;
  return {};
}

std::string_view Engine::name(int row) const {
  return row < 0 ? std::string_view() : parameters_[row].parameter().name;
}

const RegisteredParameter& Engine::find(std::string_view name) const {
  for (const RegisteredParameter& registered : parameters_)
    if (registered.parameter().name == name) return registered;
  throw std::invalid_argument("there is no parameter '" + std::string(name) + "'");
}

std::pair<const GroupStep*, int> Engine::locate(std::string_view parameter, int block) const {
  const RegisteredParameter& registered = find(parameter);
  const int row = static_cast<int>(&registered - parameters_.data());
  for (const auto& group : virtual_groups_) {
    const std::span<const OwnedBlock> blocks = group->blocks();
    for (std::size_t b = 0; b < blocks.size(); ++b)
      if (blocks[b].parameter == row && blocks[b].index == block)
        return {group.get(), static_cast<int>(b)};
  }
  throw std::invalid_argument("parameter '" + std::string(parameter) + "' has no block " +
                              std::to_string(block) + " on this rank");
}

std::vector<std::string> Engine::slot_names(std::string_view parameter, int block) const {
  const auto [group, b] = locate(parameter, block);
  std::vector<std::string> names;
  for (const Slot& slot : group->state().slots(b)) names.push_back(slot.name);
  return names;
}

SlotView Engine::slot(std::string_view parameter, int block, std::string_view slot) const {
  const auto [group, b] = locate(parameter, block);
  for (const Slot& candidate : group->state().slots(b))
    if (candidate.name == slot) return group->state().view(b, candidate);
  throw std::invalid_argument("parameter '" + std::string(parameter) + "', block " +
                              std::to_string(block) + ": there is no slot '" + std::string(slot) +
                              "'");
}

std::string Engine::describe(std::int64_t workspace_bytes, std::uint64_t plan_hash) const {
  const kernels::MemoryUse use = backend_.memory_use();
  std::string text = grouping::describe(plan_, {.workspace_bytes = workspace_bytes,
                                                .header_bytes = sizeof(SegmentHeader),
                                                .scratch_bytes = use.scratch,
                                                .host_bytes = use.host,
                                                .pool_bytes = use.pool,
                                                .plan_hash = plan_hash});
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v) {
    const Recipe& recipe = groups_[plan_.virtual_groups[v].members.front().group]->recipe();
    std::string unread;
    for (const std::string_view rate : RateRanges(recipe).unread())
      unread.append(unread.empty() ? "" : ", ").append(rate);
    if (!unread.empty())
      text += "virtual group " + std::to_string(v) + " does not read: " + unread + "\n";
  }
  return text;
}

std::int64_t Engine::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& group : virtual_groups_) bytes += group->state().bytes();
  return bytes;
}

std::int64_t Engine::workspace_bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(columns_.bytes()) + scan_table_.bytes() +
                       apply_table_.bytes() + exchange_->bytes();
  for (const auto& group : virtual_groups_) bytes += group->workspace_bytes();
  return bytes;
}

}  // namespace shampoo
