// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_state.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "shampoo/checkpoint/named_optimizers.h"

namespace shampoo::checkpoint {
namespace {

std::size_t bytes_of(const StateTensor& tensor) {
  return static_cast<std::size_t>(tensor.count()) * size_of(tensor.type);
}

}  // namespace

StateReader::StateReader(const Reader& reader, Checksums checksums,
                         const std::function<std::string(const std::string&)>& rename,
                         const std::string& optimizer)
    : reader_(reader),
      checksums_(checksums),
      arithmetic_(reader.manifest().arithmetic),
      progress_(reader.manifest().progress) {
  for (const SavedOptimizer& saved : reader.manifest().optimizers)
    if (saved.name == optimizer) {
      arithmetic_ = saved.arithmetic;
      progress_ = saved.progress;
    }
  const std::string scope = scope_of(optimizer);
  for (const SavedParameter& saved : reader.manifest().parameters)
    if (saved.name.starts_with(scope))
      named_.emplace_back(rename ? rename(saved.name) : saved.name.substr(scope.size()), &saved);
  for (const auto& [name, saved] : named_) parameters_.emplace(name, saved);
}

ParameterState StateReader::describe(const std::string& name, const SavedParameter& saved) const {
  const Manifest& manifest = reader_.manifest();
  const auto optional_row = [&](const std::optional<std::uint32_t>& row) {
    return row ? std::optional(manifest.rates[*row]) : std::nullopt;
  };
  return {.name = name,
          .shape = saved.shape,
          .merged_shape = saved.merged_shape,
          .steps = saved.steps,
          .averaging_weight_sum = saved.averaging_weight_sum,
          .recipe = manifest.recipes[saved.recipe],
          .rates = manifest.rates[saved.rates],
          .base_rates = optional_row(saved.base_rates),
          .own_rates = saved.own_rates,
          .group_rates = optional_row(saved.group_rates)};
}

StateDict StateReader::read(const StateDict& own, const std::string& prefix) const {
  const Manifest& manifest = reader_.manifest();
  StateDict dict{.library = manifest.library, .arithmetic = arithmetic_, .progress = progress_};
  std::map<std::string_view, const ParameterState*> wanted;
  for (const ParameterState& parameter : own.parameters) wanted.emplace(parameter.name, &parameter);
  for (const auto& [name, found] : named_) {
    const SavedParameter& saved = *found;
    const auto here = wanted.find(name);
    if (here == wanted.end()) {
      // Only its name will be asked for.
      dict.parameters.push_back({.name = name, .shape = saved.shape});
      continue;
    }
    ParameterState& parameter = dict.parameters.emplace_back(describe(name, saved));
    if (saved.merged_shape != here->second->merged_shape) continue;
    const BlockGrid grid = saved.grid();
    for (const BlockState& block : here->second->blocks)
      if (const auto same = grid.find(block.box))
        parameter.blocks.push_back(saved.block_state(*same));
  }

  using BySlot = std::map<std::string_view, std::vector<const StateTensor*>>;
  std::map<std::string_view, BySlot> tensors;
  for (const StateTensor& tensor : own.tensors)
    if (tensor.parameter.starts_with(prefix))
      tensors[tensor.parameter][tensor.slot].push_back(&tensor);
  for (const auto& [parameter, slots] : tensors)
    for (const auto& [slot, list] : slots) {
      const Source source = find(*list.front());
      if (!source.parameter) continue;
      if (list.front()->layout == StateLayout::elements &&
          source.slot->layout == StateLayout::elements)
        add_elements(list, dict);
      else
        add_whole(list, dict);
    }
  add_unknown(own, prefix, dict);
  return dict;
}

StateReader::Source StateReader::find(const StateTensor& own) const {
  const auto parameter = parameters_.find(own.parameter);
  if (parameter == parameters_.end()) return {};
  const SavedParameter& saved = *parameter->second;
  // Where the parameter has another shape now, that is what will be said.
  if (grouping::numel(saved.merged_shape) != grouping::numel(own.shape)) return {};
  for (const std::uint32_t row : saved.slots)
    if (const SavedSlot& slot = reader_.manifest().slots[row]; slot.name == own.slot)
      return {&saved, &slot};
  return {};
}

/// The blocks that some target may need.
std::vector<std::int64_t> StateReader::blocks_of(const SavedParameter& saved,
                                                 std::span<const Target> targets) const {
  const BlockGrid grid = saved.grid();
  std::vector<std::int64_t> blocks;
  if (targets.front().tensor.shape != saved.merged_shape) {
    blocks.resize(static_cast<std::size_t>(grid.count()));
    std::iota(blocks.begin(), blocks.end(), 0);
    return blocks;
  }
  for (const Target& target : targets) {
    const std::vector<std::int64_t> of_target = grid.overlapping(target.tensor.box);
    blocks.insert(blocks.end(), of_target.begin(), of_target.end());
  }
  std::ranges::sort(blocks);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

void StateReader::add_elements(std::span<const StateTensor* const> own, StateDict& dict) const {
  const Source source = find(*own.front());
  const SavedParameter& saved = *source.parameter;
  std::vector<Target> targets;
  for (const StateTensor* const tensor : own) {
    Target& target = targets.emplace_back(Target{*tensor, {}});
    target.tensor.type = type_of(source.slot->dtype).value();
    target.tensor.bytes.resize(bytes_of(target.tensor));
    target.buffer = {target.tensor.bytes.data(), tensor->count()};
  }
  // Which targets a block has elements of: cells of the same cut are their own.
  const BlockGrid grid = saved.grid();
  std::map<std::int64_t, std::vector<Target*>> exact;
  std::vector<Target*> others;
  for (Target& target : targets) {
    const auto same =
        target.tensor.shape == saved.merged_shape ? grid.find(target.tensor.box) : std::nullopt;
    if (same)
      exact[*same].push_back(&target);
    else
      others.push_back(&target);
  }
  for (const std::int64_t block : blocks_of(saved, targets)) {
    std::vector<Target*> touched;
    if (const auto known = exact.find(block); known != exact.end()) touched = known->second;
    const grouping::Box box = grid.box(block);
    for (Target* const target : others)
      if (may_overlap({saved.merged_shape, box}, {target->tensor.shape, target->tensor.box}))
        touched.push_back(target);
    if (!touched.empty()) read_block(source, block, touched);
  }
  for (Target& target : targets) dict.tensors.push_back(std::move(target.tensor));
}

void StateReader::read_block(const Source& source, std::int64_t block,
                             std::span<Target* const> targets) const {
  const auto& shape = source.parameter->merged_shape;
  const StateTensor tensor =
      state_tensor(*source.parameter, *source.slot, source.parameter->grid().box(block));
  const TensorShard shard = shard_of(tensor, source.parameter->files.at(block));
  StateTensor& only = targets.front()->tensor;
  if (targets.size() == 1 && only.shape == shape && only.box == tensor.box)
    return reader_.read(shard, only.bytes, checksums_);
  const std::size_t size = size_of(only.type);
  const auto take = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    const ElementRun run{static_cast<std::int64_t>(offset / size),
                         static_cast<std::int64_t>(bytes.size() / size), bytes.data()};
    for (Target* const target : targets)
      copy_run({shape, tensor.box}, run, {target->tensor.shape, target->tensor.box}, target->buffer,
               size);
  };
  reader_.read_parts(shard, take, checksums_);
}

void StateReader::add_whole(std::span<const StateTensor* const> own, StateDict& dict) const {
  const Source source = find(*own.front());
  const SavedParameter& saved = *source.parameter;
  const BlockGrid grid = saved.grid();
  const StateTensor* other = nullptr;
  for (const StateTensor* const tensor : own) {
    const auto block = saved.merged_shape == tensor->shape ? grid.find(tensor->box) : std::nullopt;
    if (!block) {
      if (grouping::numel(tensor->box.extent) > 0) other = tensor;
      continue;
    }
    StateTensor whole = state_tensor(saved, *source.slot, tensor->box);
    whole.bytes.resize(bytes_of(whole));
    reader_.read(shard_of(whole, saved.files.at(*block)), whole.bytes, checksums_);
    whole.parameter = tensor->parameter;
    dict.tensors.push_back(std::move(whole));
  }
  if (!other) return;
  // A block of the checkpoint that is none of the optimizer's, as it overlaps one of them.
  const std::int64_t block =
      saved.merged_shape == other->shape ? grid.overlapping(other->box).front() : 0;
  StateTensor foreign = state_tensor(saved, *source.slot, grid.box(block));
  foreign.bytes.resize(bytes_of(foreign));
  foreign.parameter = other->parameter;
  dict.tensors.push_back(std::move(foreign));
}

void StateReader::add_unknown(const StateDict& own, const std::string& prefix,
                              StateDict& dict) const {
  std::map<std::string_view, std::set<std::string_view>> known;
  for (const StateTensor& tensor : own.tensors) known[tensor.parameter].insert(tensor.slot);
  for (const auto& [name, parameter] : parameters_) {
    const auto slots = known.find(name);
    if (slots == known.end() || !name.starts_with(prefix)) continue;
    for (const std::uint32_t row : parameter->slots) {
      const SavedSlot& slot = reader_.manifest().slots[row];
      if (slots->second.contains(slot.name)) continue;
      const grouping::Shape none(parameter->merged_shape.size(), 0);
      dict.tensors.push_back({.parameter = std::string(name),
                              .slot = slot.name,
                              .shape = parameter->merged_shape,
                              .box = {none, none}});
    }
  }
}

}  // namespace shampoo::checkpoint
