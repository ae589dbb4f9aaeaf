// SPDX-License-Identifier: Apache-2.0
#include "grouping/plan_description.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "grouping/joined.h"
#include "grouping/segments.h"
#include "grouping/table.h"

namespace shampoo::grouping {
namespace {

constexpr int text_width = 96;

std::string extent_text(const Shape& extent) {
  return extent.empty() ? "scalar" : joined(extent, " x ");
}

std::string headline(const Plan& plan, std::uint64_t plan_hash) {
  std::int64_t parameters = 0, values = 0, blocks = 0;
  for (const PlannedGroup& group : plan.groups)
    for (const PlannedParameter& parameter : group.parameters) {
      ++parameters;
      values += numel(parameter.shape);
      blocks += static_cast<std::int64_t>(parameter.blocks.size());
    }
  return counted(static_cast<std::int64_t>(plan.groups.size()), "group") + " merged into " +
         counted(static_cast<std::int64_t>(plan.virtual_groups.size()), "virtual group") + ": " +
         counted(parameters, "parameter") + ", " + counted(values, "value") + ", " +
         counted(blocks, "block") + " on " + counted(plan.ranks, "rank") + "; plan " +
         hexadecimal(plan_hash) + "\n";
}

constexpr int names_per_group = 6;  // of the parameters; the others are counted

/// One line for every group that has members in virtual group `v`.
Rows group_rows(const Plan& plan, int v) {
  struct Line {
    std::int64_t parameters = 0, values = 0, blocks = 0;
    std::string names;
  };
  std::map<int, Line> lines;
  for (const Member& member : plan.virtual_groups[v].members) {
    const PlannedParameter& parameter = plan.parameter(member);
    Line& line = lines[member.group];
    line.values += numel(parameter.shape);
    line.blocks += static_cast<std::int64_t>(parameter.blocks.size());
    if (line.parameters++ < names_per_group)
      line.names += (line.names.empty() ? "" : ", ") + parameter.name;
  }
  Rows rows{{"group", "parameters", "values", "blocks", "names"}};
  for (auto& [group, line] : lines) {
    if (line.parameters > names_per_group)
      line.names += (line.names.empty() ? "" : " and ") +
                    count_text(line.parameters - names_per_group) + " more";
    rows.push_back({std::to_string(group), count_text(line.parameters), count_text(line.values),
                    count_text(line.blocks), line.names});
  }
  return rows;
}

/// One line for every extent in virtual group `v`, in the order of the stacks.
Rows stack_rows(const Plan& plan, int v) {
  struct Line {
    std::int64_t blocks = 0, stacks = 0, highest = 0;
  };
  std::map<std::pair<std::int64_t, Shape>, Line, std::greater<>> lines;
  for (const std::vector<Stack>& rank : stacks(plan, v))
    for (const Stack& stack : rank) {
      Line& line = lines[{numel(stack.extent), stack.extent}];
      const auto height = static_cast<std::int64_t>(stack.blocks.size());
      line = {line.blocks + height, line.stacks + 1, std::max(line.highest, height)};
    }
  Rows rows{{"extent", "blocks", "stacks", "highest stack"}};
  for (const auto& [key, line] : lines)
    rows.push_back({extent_text(key.second), count_text(line.blocks), count_text(line.stacks),
                    count_text(line.highest)});
  return rows;
}

Rows balance_rows(const Plan& plan) {
  std::vector<Work> works;
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const Block& block : plan.blocks[v]) works.push_back(plan.block_work(v, block).work);
  const Work bounds = lower_bounds(works, plan.ranks);
  const std::vector<Work> ranks = loads(plan);

  Rows rows{{"balance", "all", "mean", "largest", "on rank", "/ mean", "/ bound"}};
  const auto add = [&](const char* name, std::int64_t Work::*field, auto text) {
    std::int64_t all = 0;
    for (const Work& rank : ranks) all += rank.*field;
    const auto largest =
        std::max_element(ranks.begin(), ranks.end(),
                         [&](const Work& a, const Work& b) { return a.*field < b.*field; });
    const std::int64_t most = *largest.*field;
    rows.push_back({name, text(all), text(all / plan.ranks), text(most),
                    std::to_string(largest - ranks.begin()), ratio_text(most, all / plan.ranks),
                    ratio_text(most, bounds.*field)});
  };
  add("cost", &Work::cost, count_text);
  add("bytes", &Work::bytes, bytes_text);
  add("state", &Work::state, bytes_text);
  return rows;
}

/// Refreshes by interval: work in one step of one rank.
Rows refresh_rows(const std::vector<RefreshBalance>& balances, int ranks) {
  Rows rows{{"refreshes in", "all", "mean", "largest", "on rank", "/ mean", "/ bound", "in turn"}};
  for (const RefreshBalance& balance : balances) {
    const std::int64_t mean = balance.all / ranks / balance.interval;
    rows.push_back({counted(balance.interval, "step"), count_text(balance.all), count_text(mean),
                    count_text(balance.largest), std::to_string(balance.rank),
                    ratio_text(balance.largest, mean), ratio_text(balance.largest, balance.bound),
                    ratio_text(balance.in_turn, balance.at_once)});
  }
  return rows;
}

std::string memory_lines(const DescriptionContext& context) {
  std::string text = "  workspace of " + bytes_text(context.workspace_bytes) + " on this rank\n";
  text += "  its backend has scratch memory of " + bytes_text(context.scratch_bytes);
  if (context.host_bytes > 0)
    text += ", " + bytes_text(context.host_bytes) + " on the host for copies";
  if (context.pool_bytes > 0) text += ", and holds " + bytes_text(context.pool_bytes) + " in all";
  return text + "\n";
}

std::string exchange_line(const Plan& plan, std::int64_t header_bytes) {
  if (plan.ranks == 1) return "  no exchange on one rank\n";
  const Segments layout = segments(plan, header_bytes);
  const std::int64_t all = layout.begins.back(), longest = layout.longest();
  const std::string text = "  exchange of " + bytes_text(all);
  if (layout.equally_long())
    return text + " in segments of equal length, for which " + bytes_text(layout.padding) +
           " were added\n";
  return text + "; segments of equal length would be " + bytes_text(longest) + " and make it " +
         ratio_text(longest, all / plan.ranks) + " times as much\n";
}

}  // namespace

std::string describe(const Plan& plan, const DescriptionContext& context) {
  std::string text = headline(plan, context.plan_hash);
  for (int v = 0; v < static_cast<int>(plan.virtual_groups.size()); ++v) {
    text += "\nvirtual group " + std::to_string(v) + "\n";
    text += wrap(plan.virtual_groups[v].recipe, text_width, 4) + "\n";
    text += table(group_rows(plan, v), 1) + "\n";
    text += table(stack_rows(plan, v));
  }
  text += "\n" + table(balance_rows(plan));
  if (const std::vector<RefreshBalance> balances = refresh_balances(plan); !balances.empty())
    text += "\n" + table(refresh_rows(balances, plan.ranks));
  text += "\n" + memory_lines(context);
  return text + exchange_line(plan, context.header_bytes);
}

}  // namespace shampoo::grouping
