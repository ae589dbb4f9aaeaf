// SPDX-License-Identifier: Apache-2.0
#include "shampoo/update/block_work.h"

#include <stdexcept>
#include <string>

#include "shampoo/preconditioners/preconditioner.h"
#include "shampoo/transforms/projection.h"
#include "shampoo/update/refresh_schedule.h"
#include "shampoo/update/slots.h"

namespace shampoo {

namespace {

/// Eigensolvers count their workspace of 2 n^2 numbers in 32 bits.
constexpr std::int64_t longest_side = 32'000;

}  // namespace

void cut(RegisteredParameter& registered) {
  const Recipe& recipe = registered.group->recipe();
  const Blocking& blocking = recipe.blocking;
  registered.merged = grouping::merge_small_dimensions(registered.parameter().shape, blocking.size,
                                                       blocking.target_order);
  registered.boxes = grouping::cut(registered.merged, blocking.size);
  if (registered.boxes.empty()) return;
  // The first block is the largest along every dimension.
  const std::vector<std::int64_t>& extent = registered.boxes.front().extent;
  if (const std::string fault = block_fault(recipe, extent); !fault.empty())
    throw std::invalid_argument(registered.title() + ": " + fault);
  const Type value_type = registered.parameter().value.type;
  if (const std::string fault = projection_fault(recipe, registered.boxes.size(), value_type);
      !fault.empty())
    throw std::invalid_argument(registered.title() + ": " + fault);
  for (const Slot& slot : slots_of(recipe, extent, value_type))
    if (side_of(slot, extent) > longest_side)
      throw std::invalid_argument(registered.title() + ": recipe.blocking.size: a side of " +
                                  std::to_string(side_of(slot, extent)) +
                                  " must be cut to at most " + std::to_string(longest_side) +
                                  " to have a " + slot.name);
}

std::int64_t passes_work(std::int64_t elements) {
  constexpr std::int64_t element_passes = 140, block_handling = 50'000;
  return block_handling + element_passes * elements;
}

grouping::BlockWork work_of(const Recipe& recipe, const grouping::Box& box, Type value_type) {
  const std::int64_t elements = grouping::numel(box.extent);
  const PreconditionerWork preconditioner = preconditioner_work(recipe, box.extent);
  grouping::Work work;
  work.cost = passes_work(elements) + preconditioner.factors + preconditioner.direction +
              preconditioner.refresh / recipe.refresh.every;
  work.bytes = elements * static_cast<std::int64_t>(size_of(wire_type(recipe, value_type)));
  for (const Slot& slot : slots_of(recipe, box.extent, value_type))
    work.state += count_of(slot, box.extent) * static_cast<std::int64_t>(size_of(slot.type));
  return {box, work, refresh_interval(recipe) > 1 ? preconditioner.refresh : 0};
}

}  // namespace shampoo
