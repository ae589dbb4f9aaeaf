// SPDX-License-Identifier: Apache-2.0
// The plan and its memory, for a person.
#include <algorithm>
#include <optional>
#include <string_view>

#include "grouping/joined.h"
#include "grouping/number_text.h"
#include "grouping/plan_description.h"
#include "grouping/table.h"
#include "shampoo/trace/phase_table.h"
#include "shampoo/update/engine.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

namespace {

constexpr int text_width = 96;

std::string setting(std::string_view rate, double value) {
  return std::string(rate) + " " + grouping::exact_text(value);
}

/// The rates that the recipe reads, and those that parameters have for themselves.
std::string rates_line(const Group& group) {
  const RateRanges ranges(group.recipe());
  std::string text =
      group.label() + ": " +
      grouping::counted(static_cast<std::int64_t>(group.parameters().size()), "parameter");
  for_each_field(
      [&](std::string_view name, const auto& rate) {
        const std::optional<double> value = rate;
        if (ranges.reads(name) && value) text += ", " + setting(name, *value);
      },
      group.rates);
  for (const OwnRate& own : group.own_rates())
    text += "; " + group.parameters()[own.parameter].name + " " + setting(own.rate, own.value);
  return grouping::wrap(text, text_width, 2);
}

std::string frozen_line(std::span<const RegisteredParameter> parameters) {
  std::string text;
  for (const RegisteredParameter& registered : parameters)
    if (registered.is_frozen() && !registered.thawed)
      text += (text.empty() ? "frozen: " : ", ") + registered.parameter().name;
  return grouping::wrap(text, text_width, 2);
}

/// Tensors that the cut has left with more than two sides, which may be layers of a stack.
std::string high_order_line(std::span<const RegisteredParameter> parameters) {
  std::string text;
  for (const RegisteredParameter& registered : parameters) {
    if (registered.boxes.empty()) continue;
    const auto slots =
        preconditioner_slots(registered.group->recipe(), registered.boxes.front().extent);
    const bool has_third = std::ranges::any_of(slots, [](const Slot& slot) {
      return slot.layout != StateLayout::elements && slot.dimension == 2;
    });
    if (!has_third) continue;
    text += text.empty() ? "a factor for each of more than two sides: " : ", ";
    text += registered.parameter().name + " " + grouping::shape_text(registered.merged);
  }
  return grouping::wrap(text, text_width, 2);
}

}  // namespace

std::string Engine::describe(std::int64_t workspace_bytes, std::uint64_t plan_hash) const {
  const kernels::MemoryUse use = backend_.memory_use();
  std::string text = grouping::describe(plan_, {.workspace_bytes = workspace_bytes,
                                                .header_bytes = sizeof(SegmentHeader),
                                                .scratch_bytes = use.scratch,
                                                .host_bytes = use.host,
                                                .pool_bytes = use.pool,
                                                .plan_hash = plan_hash});
  text += "\nrates\n";
  for (const Group* const group : groups_) text += rates_line(*group);
  text += frozen_line(parameters_) + high_order_line(parameters_);
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v) {
    const Recipe& recipe = groups_[plan_.virtual_groups[v].members.front().group]->recipe();
    const std::string unread = grouping::joined(RateRanges(recipe).unread(), ", ");
    if (!unread.empty())
      text += "virtual group " + std::to_string(v) + " does not read: " + unread + "\n";
  }
  return text + "\n" + phase_table(group_steps_, *clock_);
}

std::int64_t Engine::state_bytes() const {
  std::int64_t bytes = 0;
  for (const auto& group : group_steps_) bytes += group->state().bytes();
  return bytes;
}

std::int64_t Engine::workspace_bytes() const {
  std::int64_t bytes = static_cast<std::int64_t>(columns_.bytes()) + scan_table_.bytes() +
                       apply_table_.bytes() + exchange_->bytes() +
                       static_cast<std::int64_t>(scratch_.bytes() + gradient_scales_.bytes());
  if (written_table_) bytes += written_table_->bytes();
  for (const auto& group : group_steps_) bytes += group->workspace_bytes();
  return bytes;
}

}  // namespace shampoo
