// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/import_state.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/state/packed_triangle.h"
#include "shampoo/state/state_names.h"
#include "shampoo/validation/validate_state_dict.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const StateTensor& tensor, const std::string& what) {
  throw std::invalid_argument("state dict: '" + tensor.name() + "': " + what);
}

template <typename To, typename From>
void convert(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i < from.size() / sizeof(From); ++i) {
    From number;
    std::memcpy(&number, from.data() + i * sizeof(From), sizeof(From));
    const To converted = static_cast<To>(number);
    std::memcpy(to.data() + i * sizeof(To), &converted, sizeof(To));
  }
}

template <typename Number>
void set_identity(std::int64_t n, std::span<std::byte> array) {
  const Number one = 1;
  for (std::int64_t i = 0; i < n; ++i)
    std::memcpy(array.data() + static_cast<std::size_t>(i * (n + 1) + i + 1) * sizeof(Number), &one,
                sizeof(Number));
}

std::size_t pair_bytes(std::int64_t n, Type type) {
  return static_cast<std::size_t>(n * (n + 1)) * size_of(type);
}

/// A factor of zeros and a root that is the identity.
void make_fresh(std::int64_t n, Type type, std::span<std::byte> array) {
  std::ranges::fill(array, std::byte{});
  if (type == Type::float64)
    set_identity<double>(n, array);
  else
    set_identity<float>(n, array);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t shown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(shown, names.size()); ++i)
    text += (i > 0 ? ", '" : "'") + names[i] + "'";
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

}  // namespace

StateLoad::StateLoad(Backend& backend, Engine& engine, const StateDict& dict,
                     const LoadOptions& options)
    : backend_(backend), engine_(engine), dict_(dict), options_(options) {
  validate_state_dict(dict);
  if (dict.arithmetic != backend.arithmetic()) report_.other_arithmetic = dict.arithmetic;
  match_ = match_parameters(std::as_const(engine).parameters(), dict, options, report_);
  index();
  for (const auto& group : engine.virtual_groups())
    for (std::size_t b = 0; b < group->blocks().size(); ++b) {
      const OwnedBlock& owned = group->blocks()[b];
      const RegisteredParameter& registered = engine.parameters()[owned.parameter];
      if (const ParameterState* const saved = match_.rows[owned.parameter])
        add_block({*group, b, registered, registered.boxes[owned.index], *saved});
    }
  require_complete();
}

void StateLoad::index() {
  const std::span<const RegisteredParameter> parameters = engine_.parameters();
  for (std::size_t row = 0; row < parameters.size(); ++row)
    if (match_.rows[row]) parameters_.emplace(parameters[row].parameter().name, &parameters[row]);
  for (const StateTensor& tensor : dict_.tensors) {
    if (!parameters_.contains(tensor.parameter)) continue;  // the parameter itself is reported
    tensors_[{tensor.parameter, tensor.slot}].push_back(&tensor);
    examine(tensor);
  }
}

/// What does not depend on who owns which block.
void StateLoad::examine(const StateTensor& tensor) {
  const RegisteredParameter& registered = *parameters_.at(tensor.parameter);
  const Parameter& parameter = registered.parameter();
  if (grouping::numel(tensor.shape) != grouping::numel(registered.merged))
    fail(tensor, "shape: must have as many elements as " + shape_text(registered.merged) +
                     ", got " + shape_text(tensor.shape));
  if (tensor.layout == StateLayout::symmetric && is_cut_differently(registered, tensor)) {
    if (options_.other_blocks == OtherBlocks::restart) {
      cut_differently_.insert(&registered);
      return;
    }
    fail(tensor, "belongs to the block " + shape_text(tensor.box.extent) + " at " +
                     shape_text(tensor.box.offset) + " of " + shape_text(tensor.shape) +
                     ", which is cut differently here (recipe.blocking); factors cannot be cut "
                     "again: OtherBlocks::restart starts them from zero");
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
  if (layout_of(*known) != tensor.layout || known->dimension != tensor.dimension)
    fail(tensor, "layout or dimension: is not that of the slot");
  const bool converts =
      options_.convert_types && !has_master(tensor.type) && !has_master(known->type);
  if (tensor.type != known->type && !converts)
    fail(tensor, "type: must be " + std::string(name_of(known->type)) + ", got " +
                     std::string(name_of(tensor.type)) +
                     (has_master(tensor.type) ? "" : "; LoadOptions::convert_types converts it"));
}

bool StateLoad::is_cut_differently(const RegisteredParameter& registered,
                                   const StateTensor& tensor) const {
  return tensor.shape != registered.merged ||
         std::ranges::find(registered.boxes, tensor.box) == registered.boxes.end();
}

void StateLoad::add_block(const Place& place) {
  const std::vector<Slot> slots = place.group.state().slots(static_cast<int>(place.block));
  bool recompute = false;
  for (const Slot& slot : slots) {
    if (slot.layout == Slot::Layout::elements) add_elements(place, slot);
    if (slot.layout != Slot::Layout::lower_triangle) continue;
    const auto root = std::ranges::find_if(slots, [&](const Slot& other) {
      return other.layout == Slot::Layout::upper_triangle && other.dimension == slot.dimension;
    });
    if (add_pair(place, slot, *root)) recompute = true;
  }
  const auto found = std::ranges::find(place.saved.blocks, place.box, &BlockState::box);
  const bool known = found != place.saved.blocks.end();
  blocks_.push_back({&place.group, place.block, known ? found->failures : 0,
                     known ? found->phase : place.group.blocks()[place.block].phase, recompute});
}

void StateLoad::add_elements(const Place& place, const Slot& slot) {
  const std::string& parameter = place.registered.parameter().name;
  const std::size_t size = size_of(slot.type);
  const auto count = static_cast<std::size_t>(slot.count);
  void* const to = place.group.state().data(static_cast<int>(place.block), slot);
  const Part whole{place.registered.merged, place.box};
  std::vector<const StateTensor*> parts;
  for (const StateTensor* const part : saved(place, slot))
    if (may_overlap({part->shape, part->box}, whole)) parts.push_back(part);
  if (parts.size() == 1 && parts[0]->shape == whole.shape && parts[0]->box == whole.box) {
    uploads_.push_back({to, bytes_of(*parts[0], slot.type)});
    return;
  }
  std::vector<std::byte> bytes(count * size);
  Assembly assembly{bytes.data(), slot.count, std::vector<char>(count)};
  for (const StateTensor* const part : parts)
    if (!copy_common({part->shape, part->box}, bytes_of(*part, slot.type).data(), whole, assembly,
                     size))
      fail(*part, "box: holds elements that another part holds, too");
  if (assembly.missing == 0)
    uploads_.push_back({to, assembled_.emplace_back(std::move(bytes))});
  else
    report_.missing.push_back(state_name(parameter, slot.name, StateLayout::elements,
                                         place.registered.merged, place.box));
}

bool StateLoad::add_pair(const Place& place, const Slot& factor, const Slot& root) {
  const std::string& parameter = place.registered.parameter().name;
  const auto name = [&](const Slot& slot) {
    return state_name(parameter, slot.name, StateLayout::symmetric, place.registered.merged,
                      place.box);
  };
  const StateTensor* const saved_factor = find_triangle(place, factor);
  const StateTensor* const saved_root = find_triangle(place, root);
  const bool restarts = !saved_factor && cut_differently_.contains(&place.registered);
  if (!saved_factor && !restarts) {
    report_.missing.push_back(name(factor));
    return false;
  }

  const std::int64_t n = place.box.extent[factor.dimension];
  PairUpload& pair = pairs_.emplace_back(
      PairUpload{place.group.state().data(static_cast<int>(place.block), factor), n, factor.type});
  if (saved_factor) pair.factor = bytes_of(*saved_factor, factor.type).data();
  if (saved_factor && saved_root) pair.root = bytes_of(*saved_root, root.type).data();
  array_.resize(std::max(array_.size(), pair_bytes(n, factor.type)));
  if (restarts) report_.restarted.push_back(name(factor));

  const Refresh& refresh = place.registered.group->recipe().refresh;
  const bool recompute = saved_factor && !saved_root && place.saved.steps >= *refresh.first;
  if (recompute) report_.recomputed.push_back(name(root));
  return recompute;
}

std::span<const StateTensor* const> StateLoad::saved(const Place& place, const Slot& slot) const {
  const auto found = tensors_.find({place.registered.parameter().name, slot.name});
  if (found == tensors_.end()) return {};
  return found->second;
}

const StateTensor* StateLoad::find_triangle(const Place& place, const Slot& slot) const {
  for (const StateTensor* const tensor : saved(place, slot))
    if (tensor->shape == place.registered.merged && tensor->box == place.box) return tensor;
  return nullptr;
}

std::span<const std::byte> StateLoad::bytes_of(const StateTensor& tensor, Type type) {
  if (tensor.type == type) return tensor.bytes;
  std::vector<std::byte>& bytes = converted_[&tensor];
  if (!bytes.empty()) return bytes;
  bytes.resize(static_cast<std::size_t>(tensor.count()) * size_of(type));
  if (type == Type::float64)
    convert<double, float>(tensor.bytes, bytes);
  else
    convert<float, double>(tensor.bytes, bytes);
  return bytes;
}

void StateLoad::require_complete() const {
  if (!options_.strict || (report_.missing.empty() && report_.unexpected.empty())) return;
  std::string text;
  const auto add = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    text += (text.empty() ? "" : "; ") + std::to_string(names.size()) + what + listed(names);
  };
  add(report_.missing, " missing: ");
  add(report_.unexpected, " unknown to the optimizer: ");
  throw std::invalid_argument("state dict: " + text + "; LoadOptions::strict = false accepts that");
}

std::string StateLoad::lines() const {
  const Progress& progress = dict_.progress;
  std::string text = "progress: " + std::to_string(progress.attempts) + " steps, " +
                     std::to_string(progress.taken) + " taken, the last " +
                     std::to_string(progress.skipped_in_a_row) + " refused\n";
  for (const ParameterState* const saved : match_.rows)
    if (saved)
      text += "parameter '" + saved->name + "': " + std::to_string(saved->steps) + " steps\n";
  for (const auto& [group, rates] : match_.rates) text += rates_text(group, rates);
  return text;
}

void StateLoad::upload_pairs() {
  for (const PairUpload& pair : pairs_) {
    backend_.synchronize();
    const auto array = std::span(array_).first(pair_bytes(pair.n, pair.type));
    if (!pair.factor || !pair.root) make_fresh(pair.n, pair.type, array);
    if (pair.factor) unpack(pair.factor, Half::factor, pair.n, pair.type, array.data());
    if (pair.root) unpack(pair.root, Half::root, pair.n, pair.type, array.data());
    backend_.upload(pair.to, array.data(), array.size());
  }
}

void StateLoad::replace(Statistics& statistics) {
  for (std::size_t row = 0; row < match_.rows.size(); ++row)
    if (match_.rows[row]) engine_.parameters()[row].steps = match_.rows[row]->steps;
  for (const Upload& upload : uploads_)
    backend_.upload(upload.to, upload.bytes.data(), upload.bytes.size());
  upload_pairs();
  backend_.synchronize();

  std::map<GroupStep*, std::vector<std::size_t>> due;
  for (const LoadedBlock& loaded : blocks_) {
    loaded.group->restore(loaded.block, loaded.failures, loaded.phase);
    if (loaded.recompute) due[loaded.group].push_back(loaded.block);
  }
  for (const auto& [group, blocks] : due)
    group->recompute_roots(blocks, std::as_const(engine_).parameters(), statistics);
}

}  // namespace shampoo
