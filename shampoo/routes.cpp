// SPDX-License-Identifier: Apache-2.0
#include "shampoo/routes.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "shampoo/routing/match_rules.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

namespace {

bool is_empty(const Match& match) {
  return match.names.empty() && match.pattern.empty() && !match.shape && match.orders.empty() &&
         !match.predicate;
}

/// Predicates cannot be compared.
bool are_equal(const Match& a, const Match& b) {
  return !a.predicate && !b.predicate && a.names == b.names && a.pattern == b.pattern &&
         a.shape == b.shape && a.orders == b.orders;
}

/// The route with what the parameter asks for.
Route granted(Route route, const Parameter& parameter) {
  if (!parameter.recipe || *parameter.recipe == route.recipe) return route;
  route.rates = RateRanges(*parameter.recipe).read_from(route.rates, {});
  route.recipe = *parameter.recipe;
  return route;
}

}  // namespace

Routes& Routes::add(Match match, Route route) {
  return add_rule({std::move(match), std::move(route), {}});
}

Routes& Routes::choose(Match match, Choice choice) {
  if (!choice)
    throw std::invalid_argument("rule " + std::to_string(rules_.size()) +
                                ": choice: must not be empty");
  return add_rule({std::move(match), {}, std::move(choice)});
}

Routes& Routes::add_rule(Rule rule) {
  const std::string title = "rule " + std::to_string(rules_.size());
  if (is_empty(rule.match))
    throw std::invalid_argument(
        title + ": match: must have at least one condition; otherwise() takes all that is left");
  if (!rule.match.pattern.empty()) check_pattern(title, rule.match.pattern);
  for (std::size_t r = 0; r < rules_.size(); ++r)
    if (are_equal(rules_[r].match, rule.match))
      throw std::invalid_argument(title + ": match: must not be that of " +
                                  title_of_rule(r, rules_[r].match, rules_[r].route.label));
  rules_.push_back(std::move(rule));
  return *this;
}

Routes& Routes::otherwise(Route route) {
  if (otherwise_) throw std::logic_error("otherwise: must be called once");
  otherwise_ = std::move(route);
  return *this;
}

std::vector<ParameterGroup> Routes::groups(std::vector<Parameter> parameters) const {
  const RuleMatches matches(*this, parameters);
  std::string faults;
  for (const std::string& fault : matches.faults()) faults += "\n" + fault;
  if (!faults.empty()) throw std::invalid_argument("routes:" + faults);

  struct Routed {
    std::size_t rule;
    Route route;
    std::vector<Parameter> parameters;
  };
  std::vector<Routed> routed;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    const std::optional<std::size_t> rule = matches.takers()[p];
    if (!rule) continue;
    Route route = granted(matches.route(*rule, parameters[p]), parameters[p]);
    parameters[p].frozen |= route.frozen;
    auto same = std::ranges::find_if(
        routed, [&](const Routed& all) { return all.rule == *rule && all.route == route; });
    if (same == routed.end()) same = routed.insert(same, {*rule, std::move(route), {}});
    same->parameters.push_back(std::move(parameters[p]));
  }
  std::ranges::stable_sort(routed, {}, &Routed::rule);
  std::vector<ParameterGroup> groups;
  for (Routed& all : routed)
    groups.push_back({.parameters = std::move(all.parameters),
                      .rates = all.route.rates,
                      .recipe = std::move(all.route.recipe),
                      .label = std::move(all.route.label)});
  return groups;
}

}  // namespace shampoo
