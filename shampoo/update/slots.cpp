// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/slots.h"

#include "shampoo/averaging/averaging.h"
#include "shampoo/averaging/value_averaging.h"
#include "shampoo/preconditioners/preconditioner.h"

namespace shampoo {

Type wire_type(const Recipe& recipe, Type value_type) {
  const Type type = recipe.communication.type.value_or(value_type);
  // bfloat16 has no fewer bytes, and rounds the largest numbers of float16 to infinity.
  return type == Type::bfloat16 && value_type == Type::float16 ? value_type : type;
}

Type arithmetic_type(const Recipe& recipe) {
  return recipe.arithmetic == Arithmetic::float64 ? Type::float64 : Type::float32;
}

std::int64_t side_of(const Slot& slot, std::span<const std::int64_t> extent) {
  return slot.layout == StateLayout::elements ? 0 : extent[slot.dimension];
}

std::int64_t count_of(const Slot& slot, std::span<const std::int64_t> extent) {
  if (slot.layout == StateLayout::elements) return grouping::numel(extent);
  return numbers_of(slot.layout, side_of(slot, extent));
}

std::vector<Slot> slots_of(const Recipe& recipe, std::span<const std::int64_t> extent,
                           Type value_type) {
  const Type type = arithmetic_type(recipe);
  std::vector<Slot> slots = preconditioner_slots(recipe, extent);
  if (recipe.filter && !filters_gradient(recipe))
    slots.push_back({.name = first_moment_slot, .type = type});
  for (Slot& slot : grafting_slots(recipe)) slots.push_back(std::move(slot));
  for (Slot& slot : averaging_slots(recipe)) slots.push_back(std::move(slot));
  for (Slot& slot : value_averaging_slots(recipe)) slots.push_back(std::move(slot));
  if (has_master(value_type))
    slots.push_back({.name = master_slot, .type = Type::float32, .initial = Slot::Initial::value});
  return slots;
}

}  // namespace shampoo
