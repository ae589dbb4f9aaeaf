// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/read_state.h"

#include <algorithm>
#include <set>
#include <utility>

#include "shampoo/checkpoint/expected_tensors.h"
#include "shampoo/checkpoint/shard.h"
#include "shampoo/checkpoint_error.h"
#include "shampoo/state/state_names.h"

namespace shampoo::checkpoint {
namespace {

std::string saved_name(const std::string& parameter, const std::string& slot) {
  return std::string(state_prefix) + parameter + "/" + slot;
}

std::int64_t count_of(const std::vector<std::int64_t>& shape) { return grouping::numel(shape); }

/// Boxes that fill their parameter are checked by the manifest; these come from its values.
void require_boxes(const SavedState& saved) {
  for (const ParameterState& parameter : saved.dict.parameters) {
    const auto& shape = saved.parameters.at(parameter.name).merged_shape;
    for (const BlockState& block : parameter.blocks) {
      bool fits =
          block.box.offset.size() == shape.size() && block.box.extent.size() == shape.size();
      for (std::size_t k = 0; fits && k < shape.size(); ++k)
        fits = block.box.offset[k] <= shape[k] &&
               block.box.extent[k] <= shape[k] - block.box.offset[k];
      if (!fits)
        throw CheckpointError("manifest: values: " + in_quotes("blocks/" + parameter.name) +
                              ": a block leaves the shape");
    }
  }
}

}  // namespace

StateReader::StateReader(const Reader& reader, Checksums checksums)
    : reader_(reader), checksums_(checksums), saved_(state_from(reader.manifest().values)) {
  require_boxes(saved_);
  require_announced(reader, saved_);
  saved_.dict.library = reader.manifest().library_version;
  saved_.dict.arithmetic = reader.manifest().arithmetic;
  for (const SavedTensor& tensor : reader.manifest().tensors)
    tensors_.emplace(tensor.name, &tensor);
}

const SavedTensor* StateReader::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

StateDict StateReader::read(const StateDict& own, const std::string& prefix) const {
  StateDict dict = saved_.dict;
  std::map<std::pair<std::string_view, std::string_view>, std::vector<const StateTensor*>> elements;
  for (const StateTensor& tensor : own.tensors) {
    if (!tensor.parameter.starts_with(prefix)) continue;
    if (tensor.layout == StateLayout::symmetric)
      add_triangle(tensor, dict);
    else
      elements[{tensor.parameter, tensor.slot}].push_back(&tensor);
  }
  for (const auto& [name, tensors] : elements) add_elements(tensors, dict);
  add_unknown(own, prefix, dict);
  return dict;
}

Type StateReader::type_of_tensor(const SavedTensor& tensor) const {
  const auto type = type_of(tensor.dtype);
  if (!type)
    throw CheckpointError("manifest: tensor " + in_quotes(tensor.name) +
                          ": no state has the dtype " + std::string(name_of(tensor.dtype)));
  return *type;
}

void StateReader::add_elements(std::span<const StateTensor* const> own, StateDict& dict) const {
  const StateTensor& first = *own.front();
  const SavedTensor* const saved = find(saved_name(first.parameter, first.slot));
  // Where the parameter has another shape now, that is what will be said.
  if (!saved || count_of(saved->shape) != count_of(first.shape)) return;
  const Type type = type_of_tensor(*saved);
  std::vector<Target> targets;
  for (const StateTensor* const tensor : own) {
    Target& target = targets.emplace_back(Target{*tensor, {}});
    target.tensor.type = type;
    const std::int64_t count = tensor->count();
    target.tensor.bytes.resize(static_cast<std::size_t>(count) * size_of(type));
    target.assembly = {target.tensor.bytes.data(), count};
  }
  read_elements(*saved, targets);
  for (Target& target : targets) dict.tensors.push_back(std::move(target.tensor));
}

void StateReader::read_elements(const SavedTensor& saved, std::vector<Target>& targets) const {
  for (const SavedPiece& piece : saved.pieces) {
    std::vector<Target*> touched;
    for (Target& target : targets)
      if (may_overlap({saved.shape, piece.box}, {target.tensor.shape, target.tensor.box}))
        touched.push_back(&target);
    if (!touched.empty()) read_piece(saved, piece, touched);
  }
}

void StateReader::read_piece(const SavedTensor& saved, const SavedPiece& piece,
                             std::span<Target* const> targets) const {
  StateTensor& only = targets.front()->tensor;
  if (targets.size() == 1 && only.shape == saved.shape && only.box == piece.box) {
    reader_.read(piece, only.bytes, checksums_);
    return;
  }
  const std::size_t size = size_of(type_of_tensor(saved));
  const auto take = [&](std::uint64_t offset, std::span<const std::byte> bytes) {
    const Stretch stretch{static_cast<std::int64_t>(offset / size),
                          static_cast<std::int64_t>(bytes.size() / size), bytes.data()};
    for (Target* const target : targets)
      copy_stretch({saved.shape, piece.box}, stretch, {target->tensor.shape, target->tensor.box},
                   target->assembly, size);
  };
  reader_.read_parts(piece, take, checksums_);
}

/// Of the blocks of the checkpoint, the one that is this tensor's, or else one that overlaps it.
const Box* StateReader::saved_box(const StateTensor& own) const {
  const ParameterState* const parameter = saved_.dict.find_parameter(own.parameter);
  if (!parameter) return nullptr;
  const auto& shape = saved_.parameters.at(own.parameter).merged_shape;
  if (count_of(shape) != count_of(own.shape)) return nullptr;
  const Box* other = nullptr;
  for (const BlockState& block : parameter->blocks) {
    if (shape == own.shape && block.box == own.box) return &block.box;
    if (!other && may_overlap({shape, block.box}, {own.shape, own.box})) other = &block.box;
  }
  return other;
}

void StateReader::add_triangle(const StateTensor& own, StateDict& dict) const {
  const Box* const box = saved_box(own);
  if (!box) return;
  const SavedParameter& saved = saved_.parameters.at(own.parameter);
  const auto slot = std::ranges::find(saved.slots, own.slot, &SavedSlot::name);
  if (slot == saved.slots.end()) return;
  StateTensor tensor = own;
  tensor.shape = saved.merged_shape;
  tensor.box = *box;
  tensor.layout = slot->layout;
  tensor.dimension = slot->dimension;
  const SavedTensor* const found = find(std::string(state_prefix) + tensor.name());
  if (!found) return;
  tensor.type = type_of_tensor(*found);
  tensor.bytes.resize(static_cast<std::size_t>(tensor.count()) * size_of(tensor.type));
  // Several blocks may overlap the same one.
  const auto same = [&](const StateTensor& other) {
    return other.parameter == tensor.parameter && other.slot == tensor.slot &&
           other.box == tensor.box;
  };
  if (tensor.box != own.box && std::ranges::any_of(dict.tensors, same)) return;
  read_whole(*found, tensor.bytes);
  dict.tensors.push_back(std::move(tensor));
}

void StateReader::add_unknown(const StateDict& own, const std::string& prefix,
                              StateDict& dict) const {
  std::map<std::string_view, std::set<std::string_view>> known;
  for (const StateTensor& tensor : own.tensors) known[tensor.parameter].insert(tensor.slot);
  for (const auto& [name, parameter] : saved_.parameters) {
    const auto slots = known.find(name);
    if (slots == known.end() || !name.starts_with(prefix)) continue;
    for (const SavedSlot& slot : parameter.slots) {
      if (slots->second.contains(slot.name)) continue;
      const grouping::Shape none(parameter.merged_shape.size(), 0);
      dict.tensors.push_back({.parameter = name,
                              .slot = slot.name,
                              .shape = parameter.merged_shape,
                              .box = {none, none}});
    }
  }
}

void StateReader::read_whole(const SavedTensor& tensor, std::span<std::byte> bytes) const {
  const grouping::Box whole{grouping::Shape(tensor.shape.size(), 0), tensor.shape};
  const auto only = std::ranges::find(tensor.pieces, whole, &SavedPiece::box);
  if (only != tensor.pieces.end()) return reader_.read(*only, bytes, checksums_);
  if (bits_of(tensor.dtype) % 8 != 0)
    throw CheckpointError("manifest: tensor " + in_quotes(tensor.name) + ": elements of type " +
                          std::string(name_of(tensor.dtype)) + " must lie in one piece");
  const auto size = static_cast<std::size_t>(bits_of(tensor.dtype) / 8);
  Assembly assembly{bytes.data(), static_cast<std::int64_t>(bytes.size() / size)};
  for (const SavedPiece& piece : tensor.pieces)
    reader_.read_parts(
        piece,
        [&](std::uint64_t offset, std::span<const std::byte> part) {
          copy_stretch({tensor.shape, piece.box},
                       {static_cast<std::int64_t>(offset / size),
                        static_cast<std::int64_t>(part.size() / size), part.data()},
                       {tensor.shape, whole}, assembly, size);
        },
        checksums_);
}

}  // namespace shampoo::checkpoint
