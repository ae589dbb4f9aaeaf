// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/group_state.h"

#include <algorithm>
#include <cstring>

#include "shampoo/update/strided_tiles.h"

namespace shampoo {

namespace {

bool is_flat(const Slot& slot) { return slot.layout == StateLayout::elements; }

/// Name of the slot that has the array.
const std::string& array_of(const Slot& slot) {
  return slot.shares.empty() ? slot.name : slot.shares;
}

std::int64_t flat_begin(const Slot& slot, const BlockPlacement& placement) {
  return slot.name == master_slot ? placement.master : placement.flat;
}

std::size_t bytes_of(const Slot& slot, std::int64_t numbers) {
  return static_cast<std::size_t>(numbers) * size_of(slot.type);
}

/// One float64 or float32 number, as often as it fits into so many bytes.
std::vector<std::byte> repeated(double number, Type type, std::size_t bytes) {
  std::vector<std::byte> all(bytes);
  const auto single = static_cast<float>(number);
  const void* const from = type == Type::float64 ? static_cast<const void*>(&number) : &single;
  for (std::size_t at = 0; at < bytes; at += size_of(type))
    std::memcpy(all.data() + at, from, size_of(type));
  return all;
}

}  // namespace

SlotStorage storage_of(const Slot& slot, std::span<const std::int64_t> extent) {
  return {slot.layout, !slot.shares.empty(), side_of(slot, extent),
          slot.type,   slot.array,           slot.array_type};
}

GroupState::GroupState(kernels::Backend& backend, const Recipe& recipe,
                       std::vector<BlockPlacement> placements)
    : backend_(backend), recipe_(recipe), placements_(std::move(placements)) {
  allocate();
  write_identities();
  write_constants();
}

void GroupState::allocate() {
  std::map<std::string, std::size_t, std::less<>> flat_bytes;
  std::vector<std::map<std::string, std::size_t, std::less<>>> stack_bytes;
  for (std::size_t b = 0; b < placements_.size(); ++b) {
    const BlockPlacement& placement = placements_[b];
    stack_bytes.resize(std::max(stack_bytes.size(), static_cast<std::size_t>(placement.stack) + 1));
    for (const Slot& slot : slots(static_cast<int>(b))) {
      const std::int64_t count = count_of(slot, placement.extent);
      if (is_flat(slot)) {
        std::size_t& end = flat_bytes[slot.name];
        end = std::max(end, bytes_of(slot, flat_begin(slot, placement) + count));
        bytes_ += static_cast<std::int64_t>(bytes_of(slot, count));
      } else if (slot.shares.empty()) {
        const std::size_t bytes = array_bytes(storage_of(slot, placement.extent));
        stack_bytes[placement.stack][slot.name] += bytes;
        bytes_ += static_cast<std::int64_t>(bytes);
      }
    }
  }
  for (const auto& [name, bytes] : flat_bytes)
    flat_.emplace(name, kernels::Buffer(backend_, bytes));
  stacks_.resize(stack_bytes.size());
  for (std::size_t s = 0; s < stack_bytes.size(); ++s)
    for (const auto& [name, bytes] : stack_bytes[s])
      stacks_[s].emplace(name, kernels::Buffer(backend_, bytes));
}

/// Arrays are allocated with zeros.
void GroupState::write_identities() {
  std::vector<std::byte> array;
  std::vector<SlotStorage> written, identities;
  for (std::size_t b = 0; b < placements_.size(); ++b) {
    const std::vector<Slot> slots = this->slots(static_cast<int>(b));
    for (const Slot& owner : slots) {
      if (is_flat(owner) || !owner.shares.empty()) continue;
      identities.clear();
      for (const Slot& slot : slots)
        if (slot.initial == Slot::Initial::identity && array_of(slot) == owner.name)
          identities.push_back(storage_of(slot, placements_[b].extent));
      if (identities.empty()) continue;
      if (identities != written) {
        backend_.synchronize();  // uploads may still read the array
        array.assign(array_bytes(identities.front()), std::byte{});
        for (const SlotStorage& storage : identities) set_identity(storage, array.data());
        written = identities;
      }
      backend_.upload(data(static_cast<int>(b), owner), array.data(), array.size());
    }
  }
  backend_.synchronize();
}

/// Elementwise slots have one initial value for all blocks, which share a recipe.
void GroupState::write_constants() {
  constexpr std::size_t chunk = 1 << 20;
  const std::vector<Slot> all = placements_.empty() ? std::vector<Slot>() : slots(0);
  for (const Slot& slot : all) {
    if (slot.initial != Slot::Initial::constant || slot.constant == 0) continue;
    const kernels::Buffer& array = flat_.find(slot.name)->second;
    const std::vector<std::byte> numbers =
        repeated(slot.constant, slot.type, std::min(chunk, array.bytes()));
    for (std::size_t at = 0; at < array.bytes(); at += chunk)
      backend_.upload(static_cast<char*>(array.data()) + at, numbers.data(),
                      std::min(chunk, array.bytes() - at));
    backend_.synchronize();
  }
}

void* GroupState::flat(std::string_view slot) const {
  const auto found = flat_.find(slot);
  return found == flat_.end() ? nullptr : found->second.data();
}

void* GroupState::arrays(int stack, std::string_view slot) const {
  const Arrays& arrays = stacks_[stack];
  const auto found = arrays.find(slot);
  return found == arrays.end() ? nullptr : found->second.data();
}

std::vector<Slot> GroupState::slots(int block) const {
  return slots_of(recipe_, placements_[block].extent, placements_[block].value_type);
}

void* GroupState::data(int block, const Slot& slot) const {
  const BlockPlacement& placement = placements_[block];
  if (is_flat(slot))
    return static_cast<char*>(flat(slot.name)) + bytes_of(slot, flat_begin(slot, placement));
  return static_cast<char*>(arrays(placement.stack, array_of(slot))) +
         static_cast<std::size_t>(placement.in_stack) *
             array_bytes(storage_of(slot, placement.extent));
}

SlotView GroupState::view(int block, const Slot& slot) const {
  const BlockPlacement& placement = placements_[block];
  const std::int64_t n = side_of(slot, placement.extent);
  const bool shares = !slot.shares.empty();
  SlotView view{.data = data(block, slot), .type = slot.type};
  if (!is_flat(slot))
    view.data =
        static_cast<const char*>(view.data) + part_begin(storage_of(slot, placement.extent));
  switch (slot.layout) {
    case StateLayout::elements:
      view.extent = placement.extent;
      view.strides = row_major_strides(placement.extent);
      break;
    case StateLayout::symmetric:
      if (kernels::is_packed(slot.array)) {
        view.extent = {n * (n + 1) / 2};
        view.strides = {1};
        view.packed_triangle = true;
        break;
      }
      view.data = static_cast<const char*>(view.data) + (shares ? size_of(slot.type) : 0);
      view.extent = {n, n};
      view.strides = {n + 1, 1};
      view.lower_triangle = !shares;
      view.upper_triangle = shares;
      break;
    case StateLayout::square:
      view.extent = {n, n};
      view.strides = {n, 1};
      break;
    case StateLayout::vector:
      view.extent = {n};
      view.strides = {1};
      break;
  }
  return view;
}

void GroupState::copy_block(int block, const GroupState& from, int from_block) {
  const std::vector<std::int64_t>& extent = placements_[block].extent;
  for (const Slot& slot : slots(block)) {
    if (!slot.shares.empty()) continue;  // in the array of the other
    const std::size_t bytes = is_flat(slot) ? bytes_of(slot, count_of(slot, extent))
                                            : array_bytes(storage_of(slot, extent));
    backend_.copy(data(block, slot), from.data(from_block, slot), bytes);
  }
}

}  // namespace shampoo
