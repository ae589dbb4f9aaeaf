// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/import_state.h"

#include <algorithm>
#include <stdexcept>

#include "grouping/number_text.h"
#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/converted_bytes.h"
#include "shampoo/state/packed_triangle.h"
#include "shampoo/state/state_names.h"
#include "shampoo/state/state_serialization.h"
#include "shampoo/update/refresh_schedule.h"
#include "shampoo/validation/recipe_reader.h"
#include "shampoo/validation/validate_state_dict.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const StateTensor& tensor, const std::string& what) {
  throw std::invalid_argument("state dict: '" + tensor.name() + "': " + what);
}

/// True if all blocks had their first refresh behind them where the state dict was made.
bool was_refreshed(const ParameterState& saved) {
  std::vector<std::string> unread;  // what only a later version knows
  return is_refreshed_by(read_recipe(saved.recipe, {}, unread), saved.steps);
}

/// True if the slot is computed anew because its numbers have another width here.
bool is_replaced(const Slot& slot, const StateTensor& tensor) {
  return slot.derived && has_master(tensor.type) != has_master(slot.type);
}

}  // namespace

StateImport::StateImport(kernels::Backend& backend, Engine& engine, const StateDict& dict,
                         const LoadOptions& options)
    : backend_(backend), engine_(engine), dict_(dict), options_(options) {
  validate_state_dict(dict);
  if (dict.arithmetic != backend.arithmetic()) report_.other_arithmetic = dict.arithmetic;
  match_ = match_parameters(std::as_const(engine).parameters(), dict, options, report_, faults_);
  index();
  faults_.throw_if_any(options.strict ? &report_ : nullptr);
  for (const auto& group : engine.group_steps())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const RegisteredParameter& registered = engine.parameters()[owned.parameter];
      if (const ParameterState* const saved = match_.rows[owned.parameter])
        add_block({*group, b, registered, registered.boxes[owned.index], *saved});
    }
  if (options.strict) require_complete(report_);
}

void StateImport::index() {
  const std::span<const RegisteredParameter> parameters = engine_.parameters();
  for (std::size_t row = 0; row < parameters.size(); ++row)
    if (match_.rows[row]) parameters_.emplace(parameters[row].parameter().name, &parameters[row]);
  for (const StateTensor& tensor : dict_.tensors) {
    if (!parameters_.contains(tensor.parameter)) continue;  // already reported
    tensors_.add(tensor, !is_cut_differently(*parameters_.at(tensor.parameter), tensor));
    examine(tensor);
  }
  for (const ParameterState* const saved : match_.rows)
    if (saved)
      for (const BlockState& block : saved->blocks)
        counters_.emplace(std::pair(saved, block.box), &block);
}

/// Checks that do not depend on block ownership.
void StateImport::examine(const StateTensor& tensor) {
  const RegisteredParameter& registered = *parameters_.at(tensor.parameter);
  const Parameter& parameter = registered.parameter();
  if (grouping::numel(tensor.shape) != grouping::numel(registered.merged))
    return add_fault(tensor, "shape: must have as many elements as " +
                                 shape_text(registered.merged) + ", got " +
                                 shape_text(tensor.shape));
  if (tensor.layout != StateLayout::elements && is_cut_differently(registered, tensor)) {
    const bool has_grafting = registered.group->recipe().grafting.has_value();
    if (options_.other_blocks == OtherBlocks::restart && has_grafting) {
      cut_differently_.insert(&registered);
      return;
    }
    return add_fault(
        tensor, "belongs to the block " + shape_text(tensor.box.extent) + " at " +
                    shape_text(tensor.box.offset) + " of " + shape_text(tensor.shape) +
                    ", which is cut differently here (recipe.blocking); statistics of a block "
                    "cannot be cut again" +
                    (has_grafting ? ": OtherBlocks::restart starts them anew"
                                  : ", nor start anew without grafting: directions would be too "
                                    "long"));
  }
  // All blocks of a parameter have the same slots.
  std::vector<Slot> slots;
  if (!registered.boxes.empty())
    slots =
        slots_of(registered.group->recipe(), registered.boxes.front().extent, parameter.value.type);
  const auto known = std::ranges::find(slots, tensor.slot, &Slot::name);
  if (known == slots.end()) {
    report_.unexpected.push_back(tensor.name());
    return;
  }
  if (is_replaced(*known, tensor)) return;
  if (known->layout != tensor.layout || known->dimension != tensor.dimension)
    return add_fault(tensor, "layout or dimension: is not that of the slot");
  const bool converts =
      options_.convert_types && !has_master(tensor.type) && !has_master(known->type);
  if (tensor.type != known->type && !converts)
    add_fault(tensor,
              "type: must be " + std::string(name_of(known->type)) + ", got " +
                  std::string(name_of(tensor.type)) +
                  (has_master(tensor.type) ? "" : "; LoadOptions::convert_types converts it"));
}

void StateImport::add_fault(const StateTensor& tensor, const std::string& what) {
  faults_.add("'" + tensor.name() + "': " + what);
}

bool StateImport::is_cut_differently(const RegisteredParameter& registered,
                                     const StateTensor& tensor) const {
  // Boxes are in row-major order.
  return tensor.shape != registered.merged ||
         !std::ranges::binary_search(registered.boxes, tensor.box);
}

void StateImport::add_block(Place place) {
  const std::vector<Slot> slots = place.group.state().slots(static_cast<int>(place.block));
  // The same box of another merged shape is another block.
  const bool same = place.saved.merged_shape == place.registered.merged;
  const auto found = same ? counters_.find({&place.saved, place.box}) : counters_.end();
  const int failures = found == counters_.end() ? 0 : found->second->failures;
  place.restarts = found == counters_.end() && cut_differently_.contains(&place.registered);
  bool recompute = failures == 0 && lacks_refresh(place, slots);
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (slots[s].layout == StateLayout::elements)
      add_elements(place, slots[s]);
    else if (slots[s].shares.empty() && add_array(place, slots, s))
      recompute = true;
  }
  blocks_.push_back({&place.group, place.block, failures, recompute});
}

bool StateImport::is_refreshed(const Place& place) {
  const Recipe& recipe = place.registered.group->recipe();
  return !acts_before_refresh(recipe) && is_refreshed_by(recipe, place.saved.steps);
}

bool StateImport::lacks_refresh(const Place& place, std::span<const Slot> slots) {
  if (!is_refreshed(place)) return false;
  std::vector<std::string> initial;
  for (const Slot& slot : slots) {
    if (slot.initial != Slot::Initial::identity) continue;
    const StateTensor* const tensor = find_whole(place, slot);
    if (!tensor ||
        !is_identity(storage_of(slot, place.box.extent), bytes_of(*tensor, slot.type).data()))
      return false;
    initial.push_back(tensor->name());
  }
  if (initial.empty() || was_refreshed(place.saved)) return false;
  report_.recomputed.insert(report_.recomputed.end(), initial.begin(), initial.end());
  return true;
}

void StateImport::add_elements(const Place& place, const Slot& slot) {
  const std::string& parameter = place.registered.parameter().name;
  const std::size_t size = size_of(slot.type);
  const std::int64_t numbers = count_of(slot, place.box.extent);
  const auto count = static_cast<std::size_t>(numbers);
  void* const to = place.group.state().data(static_cast<int>(place.block), slot);
  const TensorSlice whole{place.registered.merged, place.box};
  if (slot.in_basis && place.restarts) {
    report_.restarted.push_back(state_name(parameter, slot.name, StateLayout::elements,
                                           place.registered.merged, place.box));
    uploads_.push_back({to, assembled_.emplace_back(count * size)});
    return;
  }
  const std::vector<const StateTensor*> parts = tensors_.overlapping(parameter, slot.name, whole);
  if (parts.size() == 1 && parts[0]->shape == whole.shape && parts[0]->box == whole.box) {
    uploads_.push_back({to, bytes_of(*parts[0], slot.type)});
    return;
  }
  std::vector<std::byte> bytes(count * size);
  SliceBuffer buffer{bytes.data(), numbers, std::vector<char>(count)};
  for (const StateTensor* const part : parts)
    if (!copy_common({part->shape, part->box}, bytes_of(*part, slot.type).data(), whole, buffer,
                     size))
      fail(*part, "box: holds elements that another part holds, too");
  if (buffer.missing == 0)
    uploads_.push_back({to, assembled_.emplace_back(std::move(bytes))});
  else
    report_.missing.push_back(state_name(parameter, slot.name, StateLayout::elements,
                                         place.registered.merged, place.box));
}

bool StateImport::add_array(const Place& place, std::span<const Slot> slots, std::size_t first) {
  const auto name = [&](const Slot& slot) {
    return state_name(place.registered.parameter().name, slot.name, slot.layout,
                      place.registered.merged, place.box);
  };
  const Slot& owner = slots[first];
  const StateTensor* const statistics = place.restarts ? nullptr : find_whole(place, owner);
  if (!statistics && !place.restarts) {
    report_.missing.push_back(name(owner));
    return false;
  }
  if (place.restarts) report_.restarted.push_back(name(owner));

  ArrayUpload upload{place.group.state().data(static_cast<int>(place.block), owner)};
  bool recompute = false;
  for (const Slot& slot : slots.subspan(first)) {
    if (slot.name != owner.name && slot.shares != owner.name) continue;
    const StateTensor* const tensor = statistics ? find_whole(place, slot) : nullptr;
    SlotNumbers numbers{storage_of(slot, place.box.extent), slot.initial};
    if (tensor) numbers.packed = bytes_of(*tensor, slot.type).data();
    array_.resize(std::max(array_.size(), array_bytes(numbers.storage)));
    upload.slots.push_back(numbers);
    // Before the first refresh derived slots have their initial value.
    if (tensor || place.restarts || !slot.derived || !is_refreshed(place)) continue;
    recompute = true;
    report_.recomputed.push_back(name(slot));
  }
  arrays_.push_back(std::move(upload));
  return recompute;
}

const StateTensor* StateImport::find_whole(const Place& place, const Slot& slot) const {
  const StateTensor* const tensor = tensors_.find(place.registered.parameter().name, slot.name,
                                                  {place.registered.merged, place.box});
  return tensor && is_replaced(slot, *tensor) ? nullptr : tensor;
}

std::span<const std::byte> StateImport::bytes_of(const StateTensor& tensor, Type type) {
  if (tensor.type == type) return tensor.bytes;
  std::vector<std::byte>& bytes = converted_[&tensor];
  if (bytes.empty()) bytes = converted_bytes(tensor, type);
  return bytes;
}

std::string StateImport::lines() const {
  std::string text = progress_text(dict_.progress);
  for (const ParameterState* const saved : match_.rows) {
    if (!saved) continue;
    const std::string parameter = "parameter '" + saved->name + "': ";
    text += parameter + std::to_string(saved->steps) + " steps\n";
    if (saved->averaging_weight_sum != 0)
      text += parameter + "averaging_weight_sum " +
              grouping::exact_text(saved->averaging_weight_sum) + "\n";
  }
  for (const auto& [group, all] : match_.rates)
    text += rates_text(*engine_.groups()[group], all.rates, all.own);
  for (const auto& [group, rates] : match_.base_rates)
    text += "base rates: " + rates_text(*engine_.groups()[group], rates, {});
  return text;
}

void StateImport::upload_arrays() {
  for (const ArrayUpload& upload : arrays_) {
    backend_.synchronize();
    const auto array = std::span(array_).first(array_bytes(upload.slots.front().storage));
    std::ranges::fill(array, std::byte{});
    for (const SlotNumbers& slot : upload.slots)
      if (slot.packed)
        unpack(slot.packed, slot.storage, array.data());
      else if (slot.initial == Slot::Initial::identity)
        set_identity(slot.storage, array.data());
    backend_.upload(upload.to, array.data(), array.size());
  }
}

void StateImport::replace(Statistics& statistics) {
  for (std::size_t row = 0; row < match_.rows.size(); ++row)
    if (const ParameterState* const saved = match_.rows[row]) {
      engine_.parameters()[row].steps = saved->steps;
      engine_.parameters()[row].averaging_weight_sum = saved->averaging_weight_sum;
    }
  for (RegisteredParameter& registered : engine_.parameters()) registered.read_rates();
  for (const Upload& upload : uploads_)
    backend_.upload(upload.to, upload.bytes.data(), upload.bytes.size());
  upload_arrays();
  backend_.synchronize();

  std::map<GroupStep*, std::vector<std::size_t>> due;
  for (const LoadedBlock& loaded : blocks_) {
    loaded.group->set_failures(loaded.block, loaded.failures);
    if (loaded.recompute) due[loaded.group].push_back(loaded.block);
  }
  for (const auto& [group, blocks] : due)
    group->recompute(blocks, std::as_const(engine_).parameters(), statistics);
}

}  // namespace shampoo
