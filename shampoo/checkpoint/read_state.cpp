// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shampoo/checkpoint_directory.h"
#include "shampoo/recipe.h"

namespace shampoo::checkpoint {
namespace {

/// In the order of fields_of(), so that equal recipes are equal lists.
void sort_recipe(ParameterState& parameter) {
  std::vector<RecipeField> sorted;
  for (const RecipeField& known : fields_of(Recipe{})) {
    const auto field = std::ranges::find(parameter.recipe, known.name, &RecipeField::name);
    if (field == parameter.recipe.end()) continue;
    sorted.push_back(std::move(*field));
    parameter.recipe.erase(field);
  }
  if (!parameter.recipe.empty())
    throw CheckpointError("manifest: parameter " + in_quotes(parameter.name) + ": recipe." +
                          in_quotes(parameter.recipe.front().name) + " is unknown");
  parameter.recipe = std::move(sorted);
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) { return grouping::numel(shape); }

}  // namespace

StateReader::StateReader(const Reader& reader, Checksums checksums)
    : reader_(reader), checksums_(checksums) {
  const Manifest& manifest = reader.manifest();
  dict_.library = manifest.library;
  dict_.arithmetic = manifest.arithmetic;
  dict_.progress = manifest.progress;
  for (const SavedParameter& saved : manifest.parameters) {
    parameters_.emplace(saved.state.name, &saved);
    ParameterState& parameter = dict_.parameters.emplace_back(saved.state);
    sort_recipe(parameter);
    for (const SavedBlock& block : saved.blocks) parameter.blocks.push_back(block.state);
  }
}

StateDict StateReader::read(const StateDict& own, const std::string& prefix) const {
  StateDict dict = dict_;
  using BySlot = std::map<std::string_view, std::vector<const StateTensor*>>;
  std::map<std::string_view, BySlot> elements;
  for (const StateTensor& tensor : own.tensors) {
    if (!tensor.parameter.starts_with(prefix)) continue;
    if (tensor.layout == StateLayout::elements)
      elements[tensor.parameter][tensor.slot].push_back(&tensor);
    else
      add_whole(tensor, dict);
  }
  for (const auto& [parameter, slots] : elements)
    for (const auto& [slot, tensors] : slots) add_elements(tensors, dict);
  add_unknown(own, prefix, dict);
  return dict;
}

StateReader::Source StateReader::find(const StateTensor& own) const {
  const auto parameter = parameters_.find(own.parameter);
  if (parameter == parameters_.end()) return {};
  const SavedParameter& saved = *parameter->second;
  const auto slot = std::ranges::find(saved.slots, own.slot, &SavedSlot::name);
  // Where the parameter has another shape now, that is what will be said.
  if (slot == saved.slots.end() || count_of(saved.merged_shape) != count_of(own.shape)) return {};
  return {&saved, static_cast<std::size_t>(slot - saved.slots.begin())};
}

void StateReader::add_elements(std::span<const StateTensor* const> own, StateDict& dict) const {
  const Source source = find(*own.front());
  if (!source.parameter) return;
  if (source.parameter->slots[source.slot].layout != StateLayout::elements)
    return add_whole(*own.front(), dict);
  const Type type = type_of(source.parameter->slots[source.slot].dtype).value();
  std::vector<Target> targets;
  for (const StateTensor* const tensor : own) {
    Target& target = targets.emplace_back(Target{*tensor, {}});
    target.tensor.type = type;
    const std::int64_t count = tensor->count();
    target.tensor.bytes.resize(static_cast<std::size_t>(count) * size_of(type));
    target.buffer = {target.tensor.bytes.data(), count};
  }
  for (const SavedBlock& block : source.parameter->blocks) {
    std::vector<Target*> touched;
    for (Target& target : targets)
      if (may_overlap({source.parameter->merged_shape, block.state.box},
                      {target.tensor.shape, target.tensor.box}))
        touched.push_back(&target);
    if (!touched.empty()) read_block(source, block, touched);
  }
  for (Target& target : targets) dict.tensors.push_back(std::move(target.tensor));
}

void StateReader::read_block(const Source& source, const SavedBlock& block,
                             std::span<Target* const> targets) const {
  const TensorShard shard = shard_of(*source.parameter, block, source.slot);
  const auto& shape = source.parameter->merged_shape;
  StateTensor& only = targets.front()->tensor;
  if (targets.size() == 1 && only.shape == shape && only.box == block.state.box)
    return reader_.read(shard, only.bytes, checksums_);
  const std::size_t size = size_of(only.type);
  const auto take = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    const ElementRun run{static_cast<std::int64_t>(offset / size),
                         static_cast<std::int64_t>(bytes.size() / size), bytes.data()};
    for (Target* const target : targets)
      copy_run({shape, block.state.box}, run, {target->tensor.shape, target->tensor.box},
               target->buffer, size);
  };
  reader_.read_parts(shard, take, checksums_);
}

/// Of the tensor's own block, or else of one that overlaps it.
void StateReader::add_whole(const StateTensor& own, StateDict& dict) const {
  const Source source = find(own);
  if (!source.parameter) return;
  const auto& shape = source.parameter->merged_shape;
  const auto& blocks = source.parameter->blocks;
  const auto box_of = [](const SavedBlock& block) { return block.state.box; };
  auto block = shape == own.shape ? std::ranges::find(blocks, own.box, box_of) : blocks.end();
  if (block == blocks.end())
    block = std::ranges::find_if(blocks, [&](const SavedBlock& other) {
      return may_overlap({shape, other.state.box}, {own.shape, own.box});
    });
  if (block == blocks.end()) return;
  StateTensor tensor = state_tensor(*source.parameter, *block, source.slot);
  // Several blocks may overlap the same one.
  const auto same = [&](const StateTensor& other) {
    return other.parameter == tensor.parameter && other.slot == tensor.slot &&
           other.box == tensor.box;
  };
  if (tensor.box != own.box && std::ranges::any_of(dict.tensors, same)) return;
  tensor.bytes.resize(static_cast<std::size_t>(tensor.count()) * size_of(tensor.type));
  reader_.read(shard_of(*source.parameter, *block, source.slot), tensor.bytes, checksums_);
  dict.tensors.push_back(std::move(tensor));
}

void StateReader::add_unknown(const StateDict& own, const std::string& prefix,
                              StateDict& dict) const {
  std::map<std::string_view, std::set<std::string_view>> known;
  for (const StateTensor& tensor : own.tensors) known[tensor.parameter].insert(tensor.slot);
  for (const auto& [name, parameter] : parameters_) {
    const auto slots = known.find(name);
    if (slots == known.end() || !name.starts_with(prefix)) continue;
    for (const SavedSlot& slot : parameter->slots) {
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
