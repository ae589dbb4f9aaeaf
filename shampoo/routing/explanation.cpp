// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>

#include "grouping/blocks.h"
#include "grouping/number_text.h"
#include "grouping/table.h"
#include "shampoo/routes.h"
#include "shampoo/routing/match_rules.h"

namespace shampoo {

namespace {

/// The parameters that one rule takes, or none does.
std::string section(const std::string& title, std::span<const Parameter> parameters,
                    const std::vector<std::size_t>& taken) {
  std::int64_t values = 0;
  grouping::Rows rows{{"parameter", "shape", "values"}};
  for (const std::size_t p : taken) {
    const std::int64_t count = grouping::numel(parameters[p].shape);
    values += count;
    rows.push_back({parameters[p].name + (parameters[p].recipe ? " (asks for its recipe)" : ""),
                    grouping::shape_text(parameters[p].shape), grouping::count_text(count)});
  }
  const std::string head = title + ": " +
                           grouping::counted(static_cast<std::int64_t>(taken.size()), "parameter") +
                           ", " + grouping::counted(values, "value") + "\n";
  return taken.empty() ? head : head + grouping::table(rows);
}

}  // namespace

std::string Routes::explain(std::span<const Parameter> parameters) const {
  const RuleMatches matches(*this, parameters);
  const std::size_t rules = rules_.size() + (otherwise_ ? 1 : 0);
  std::vector<std::vector<std::size_t>> taken(rules);
  std::vector<std::size_t> unmatched;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::optional<std::size_t> rule = matches.takers()[p];
    (rule ? taken[*rule] : unmatched).push_back(p);
  }
  std::string text;
  for (std::size_t r = 0; r < rules; ++r) text += section(matches.title(r), parameters, taken[r]);
  if (!unmatched.empty()) text += section("no rule", parameters, unmatched);
  for (const std::string& fault : matches.faults()) text += "error: " + fault + "\n";
  return text;
}

}  // namespace shampoo
