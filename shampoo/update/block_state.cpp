// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_state.h"

#include <algorithm>

#include "kernels/staged_array.h"
#include "shampoo/update/strided_tiles.h"

namespace shampoo {

namespace {

/// Numbers in the array that a factor of side n shares with its root.
std::int64_t pair_numbers(std::int64_t n) { return n * (n + 1); }

std::int64_t bytes_of(const Slot& slot) {
  return slot.count * static_cast<std::int64_t>(size_of(slot.type));
}

}  // namespace

State::State(Backend& backend, const Recipe& recipe, std::vector<StatePlace> places)
    : backend_(backend), recipe_(recipe), places_(std::move(places)) {
  std::map<std::string, std::int64_t, std::less<>> flat_bytes;
  std::vector<std::int64_t> stack_counts;
  for (const StatePlace& place : places_) {
    if (place.stack >= static_cast<int>(stack_counts.size())) stack_counts.push_back(0);
    ++stack_counts[place.stack];
    for (const Slot& slot : slots_of(recipe_, place.extent, place.value_type)) {
      bytes_ += bytes_of(slot);
      if (slot.layout != Slot::Layout::elements) continue;
      const std::int64_t first = slot.name == master_slot ? place.master : place.flat;
      std::int64_t& end = flat_bytes[slot.name];
      end = std::max(end, (first + slot.count) * static_cast<std::int64_t>(size_of(slot.type)));
    }
  }
  for (const auto& [name, bytes] : flat_bytes)
    flat_.emplace(name, kernels::Buffer(backend_, static_cast<std::size_t>(bytes)));
  allocate_factors(stack_counts);
  reset_roots();
}

void State::allocate_factors(std::span<const std::int64_t> counts) {
  factors_.resize(counts.size());
  for (const StatePlace& place : places_) {
    std::vector<kernels::Buffer>& stack = factors_[place.stack];
    if (!stack.empty()) continue;
    stack.resize(place.extent.size());
    for (const Slot& slot : slots_of(recipe_, place.extent, place.value_type)) {
      if (slot.layout != Slot::Layout::lower_triangle) continue;
      const std::int64_t numbers = counts[place.stack] * pair_numbers(place.extent[slot.dimension]);
      stack[slot.dimension] =
          kernels::Buffer(backend_, static_cast<std::size_t>(numbers) * size_of(slot.type));
    }
  }
}

void State::reset_roots() {
  std::map<std::int64_t, std::vector<void*>> by_side;
  for (std::size_t b = 0; b < places_.size(); ++b)
    for (std::size_t k = 0; k < places_[b].extent.size(); ++k)
      if (void* const array = pair(static_cast<int>(b), static_cast<int>(k)))
        by_side[places_[b].extent[k]].push_back(array);

  kernels::StagedArrays staged(backend_);
  std::vector<kernels::StagedArray<void*>> arrays;
  for (const auto& [side, list] : by_side) arrays.push_back(staged.add<void*>(list.size()));
  staged.allocate();
  std::vector<kernels::FactorBatch> roots;
  for (const auto& [side, list] : by_side) {
    const kernels::StagedArray<void*>& array = arrays[roots.size()];
    std::ranges::copy(list, array.host().begin());
    roots.push_back(
        {arithmetic_type(recipe_), side, static_cast<std::int64_t>(list.size()), 0, array.data()});
  }
  staged.upload();
  backend_.identity_roots(roots);
  backend_.synchronize();
}

void* State::flat(std::string_view slot) const {
  const auto found = flat_.find(slot);
  return found == flat_.end() ? nullptr : found->second.data();
}

std::vector<void*> State::factors(int stack) const {
  std::vector<void*> pointers;
  for (const kernels::Buffer& dimension : factors_[stack]) pointers.push_back(dimension.data());
  return pointers;
}

void* State::pair(int block, int dimension) const {
  const StatePlace& place = places_[block];
  void* const first = factors_[place.stack][dimension].data();
  if (!first) return nullptr;
  const std::int64_t stride = pair_numbers(place.extent[dimension]) *
                              static_cast<std::int64_t>(size_of(arithmetic_type(recipe_)));
  return static_cast<char*>(first) + place.in_stack * stride;
}

std::vector<Slot> State::slots(int block) const {
  return slots_of(recipe_, places_[block].extent, places_[block].value_type);
}

void* State::data(int block, const Slot& slot) const {
  if (slot.layout != Slot::Layout::elements) return pair(block, slot.dimension);
  const StatePlace& place = places_[block];
  const std::int64_t first = slot.name == master_slot ? place.master : place.flat;
  return static_cast<char*>(flat(slot.name)) +
         first * static_cast<std::int64_t>(size_of(slot.type));
}

SlotView State::view(int block, const Slot& slot) const {
  const StatePlace& place = places_[block];
  const std::int64_t size = static_cast<std::int64_t>(size_of(slot.type));
  SlotView view;
  view.type = slot.type;
  if (slot.layout == Slot::Layout::elements) {
    view.data = data(block, slot);
    view.extent = place.extent;
    view.strides = row_major_strides(place.extent);
    return view;
  }
  const std::int64_t n = place.extent[slot.dimension];
  const bool root = slot.layout == Slot::Layout::upper_triangle;
  view.data = static_cast<const char*>(data(block, slot)) + (root ? size : 0);
  view.extent = {n, n};
  view.strides = {n + 1, 1};
  view.lower_triangle = !root;
  view.upper_triangle = root;
  return view;
}

void State::copy_block(int block, const State& from, int from_block) {
  for (const Slot& slot : slots(block)) {
    if (slot.layout == Slot::Layout::upper_triangle) continue;  // in its factor's array
    const SlotView to = view(block, slot);
    const std::int64_t numbers = to.lower_triangle ? pair_numbers(to.extent.front()) : slot.count;
    backend_.copy(const_cast<void*>(to.data), from.view(from_block, slot).data,
                  static_cast<std::size_t>(numbers) * size_of(slot.type));
  }
}

}  // namespace shampoo
