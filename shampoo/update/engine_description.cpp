// SPDX-License-Identifier: Apache-2.0
// The plan and its memory, for a person.
#include "grouping/plan_description.h"
#include "shampoo/trace/phase_table.h"
#include "shampoo/update/engine.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

std::string Engine::describe(std::int64_t workspace_bytes, std::uint64_t plan_hash) const {
  const kernels::MemoryUse use = backend_.memory_use();
  std::string text = grouping::describe(plan_, {.workspace_bytes = workspace_bytes,
                                                .header_bytes = sizeof(SegmentHeader),
                                                .scratch_bytes = use.scratch,
                                                .host_bytes = use.host,
                                                .pool_bytes = use.pool,
                                                .plan_hash = plan_hash});
  for (std::size_t v = 0; v < plan_.virtual_groups.size(); ++v) {
    const Recipe& recipe = groups_[plan_.virtual_groups[v].members.front().group]->recipe();
    std::string unread;
    for (const std::string_view rate : RateRanges(recipe).unread())
      unread.append(unread.empty() ? "" : ", ").append(rate);
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
                       static_cast<std::int64_t>(direction_.bytes()) + solver_matrices_.bytes();
  for (const auto& group : group_steps_) bytes += group->workspace_bytes();
  return bytes;
}

}  // namespace shampoo
