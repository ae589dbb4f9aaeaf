// SPDX-License-Identifier: Apache-2.0
// The plan, and the tables, exchanges and group steps that it asks for.
#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "distributor/segment_header.h"
#include "shampoo/state/state_names.h"
#include "shampoo/update/block_chunks.h"
#include "shampoo/update/block_work.h"
#include "shampoo/update/engine.h"
#include "shampoo/update/evaluation_values.h"
#include "shampoo/update/refresh_schedule.h"

namespace shampoo {

using kernels::Mode;

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
    if (!options_.merge_groups) planned.back().recipe += " of group " + std::to_string(index);
    for (std::size_t i = 0; i < group->parameters().size(); ++i) {
      RegisteredParameter registered{.group = group, .group_index = index, .index = i};
      const Parameter& parameter = registered.parameter();
      if (parameter.frozen)
        registered.merged = {0};
      else
        cut(registered);
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
  mark_thawed();
  check_names(parameters_);
  plan_ = plan_.groups.empty() ? grouping::plan(std::move(planned), communicator_.size())
                               : grouping::extend(std::move(plan_), std::move(planned));
}

void Engine::mark_thawed() {
  std::set<std::string_view> trained;
  for (const RegisteredParameter& registered : parameters_)
    if (!registered.is_frozen()) trained.insert(registered.parameter().name);
  for (RegisteredParameter& registered : parameters_)
    registered.thawed = registered.is_frozen() && trained.contains(registered.parameter().name);
}

void Engine::build_tables() {
  header_ = columns_.add<SegmentHeader>(1);
  permit_ = columns_.add<kernels::StepPermit>(1);
  tensors_ = TensorTable(columns_, parameters_.size());
  // The bits of the norm of all gradients depend on their order: that of names is one for all
  // groupings.
  std::map<std::string_view, int> rows;
  for (std::size_t p = 0; p < parameters_.size(); ++p)
    if (!parameters_[p].thawed) rows[parameters_[p].parameter().name] = static_cast<int>(p);
  for (const auto& [name, p] : rows)
    scan_table_.append_whole(parameters_[p].parameter(), p,
                             arithmetic_type(parameters_[p].group->recipe()));
  scan_table_.upload(backend_);
  if (std::holds_alternative<ClipParameterNorm>(options_.gradients.clipping))
    gradient_scales_ = kernels::Buffer(backend_, parameters_.size() * sizeof(double));

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
  const auto bytes_of = [this](const grouping::Segments& segments) {
    // On one rank nothing is sent.
    if (communicator_.size() == 1) return std::vector<std::int64_t>{sizeof(SegmentHeader)};
    std::vector<std::int64_t> bytes;
    for (std::size_t r = 0; r + 1 < segments.begins.size(); ++r)
      bytes.push_back(segments.begins[r + 1] - segments.begins[r]);
    return bytes;
  };
  segments_ = grouping::segments(plan_, sizeof(SegmentHeader));
  const bool evaluates = std::ranges::any_of(
      groups_, [](const Group* group) { return has_evaluation_values(group->recipe()); });
  if (evaluates) value_segments_ = value_segments_of(plan_, groups_);
  const bool shares = evaluates && communicator_.size() > 1;
  exchange_ = std::make_unique<Exchange>(backend_, communicator_, bytes_of(segments_),
                                         shares ? value_segments_.begins.back() : 0);
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
      const std::int64_t flat =
          stacks[s].offset + static_cast<std::int64_t>(i) * grouping::flat_stride(stacks[s].extent);
      owned.push_back({.parameter = row(plan_.virtual_groups[v].members[blocks[b].member]),
                       .index = blocks[b].index,
                       .stack = static_cast<int>(s),
                       .in_stack = static_cast<std::int64_t>(i),
                       .flat = flat,
                       .segment = segments_.blocks[v][b],
                       .phase = blocks[b].phase});
    }
  return owned;
}

std::int64_t Engine::direction_limit() const {
  const auto rank = static_cast<std::size_t>(communicator_.rank());
  return shampoo::direction_limit(options_.direction_bytes, grouping::loads(plan_)[rank].state);
}

void Engine::build_group_steps(const Engine* before) {
  const std::int64_t limit = direction_limit();
  first_chunks_.push_back(0);
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v) {
    const int first = plan_.virtual_groups[v].members.front().group;
    group_steps_.push_back(std::make_unique<GroupStep>(
        backend_, columns_, scratch_, groups_[first]->recipe(), owned_blocks(static_cast<int>(v)),
        parameters_, options_.transform_direction, limit));
    scratch_.reserve(backend_, group_steps_.back()->direction_bytes());
    first_chunks_.push_back(first_chunks_.back() + group_steps_.back()->chunks().size());
    names_.push_back("virtual group " + std::to_string(v));
  }
  columns_.allocate();
  tensors_.set_values(parameters_);
  columns_.upload();
  read_values();
  for (std::size_t v = 0; before && v < before->group_steps_.size(); ++v)
    group_steps_[v]->adopt(*before->group_steps_[v]);
  backend_.synchronize();
}

}  // namespace shampoo
