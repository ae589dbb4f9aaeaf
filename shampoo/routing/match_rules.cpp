// SPDX-License-Identifier: Apache-2.0
#include "shampoo/routing/match_rules.h"

#include <algorithm>
#include <regex>
#include <set>
#include <stdexcept>
#include <string_view>

#include "grouping/joined.h"
#include "grouping/number_text.h"

namespace shampoo {

namespace {

int order_of(const Parameter& parameter) {
  return static_cast<int>(
      std::ranges::count_if(parameter.shape, [](std::int64_t side) { return side != 1; }));
}

/// The conditions of a match, with its pattern compiled.
class Condition {
 public:
  explicit Condition(const Match& match) : match_(match) {
    if (!match.pattern.empty()) pattern_.emplace(match.pattern, std::regex::ECMAScript);
  }

  bool holds(const Parameter& parameter) const {
    const auto is_one_of = [](const auto& list, const auto& value) {
      return list.empty() || std::ranges::find(list, value) != list.end();
    };
    return is_one_of(match_.names, parameter.name) &&
           (!pattern_ || std::regex_match(parameter.name, *pattern_)) &&
           (!match_.shape || *match_.shape == parameter.shape) &&
           is_one_of(match_.orders, order_of(parameter)) &&
           (!match_.predicate || match_.predicate(parameter));
  }
  bool is_by_name() const { return !match_.names.empty(); }

 private:
  const Match& match_;
  std::optional<std::regex> pattern_;
};

}  // namespace

std::string title_of_rule(std::size_t rule, const Match& match, const std::string& label) {
  std::string conditions;
  const auto add = [&](const std::string& text) {
    conditions += (conditions.empty() ? "" : ", ") + text;
  };
  for (const std::string& name : match.names) add("name '" + name + "'");
  if (!match.pattern.empty()) add("pattern '" + match.pattern + "'");
  if (match.shape) add("shape " + grouping::shape_text(*match.shape));
  for (const int order : match.orders) add("order " + std::to_string(order));
  if (match.predicate) add("predicate");
  return "rule " + std::to_string(rule) + (label.empty() ? "" : " '" + label + "'") + " (" +
         conditions + ")";
}

void check_pattern(const std::string& rule, const std::string& pattern) {
  constexpr std::size_t longest = 1000;  // nested brackets are compiled by recursion
  if (pattern.size() > longest)
    throw std::invalid_argument(rule + ": pattern: must have at most " + std::to_string(longest) +
                                " characters, got " + std::to_string(pattern.size()));
  try {
    (void)std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& error) {
    throw std::invalid_argument(rule + ": pattern: must be a regular expression, got '" + pattern +
                                "': " + error.what());
  }
}

RuleMatches::RuleMatches(const Routes& routes, std::span<const Parameter> parameters)
    : routes_(routes), takers_(parameters.size()), used_(routes.rules_.size()) {
  std::vector<Condition> conditions;
  for (const Routes::Rule& rule : routes.rules_) conditions.emplace_back(rule.match);
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    std::vector<std::size_t> by_name, others;
    for (std::size_t r = 0; r < conditions.size(); ++r)
      if (conditions[r].holds(parameters[p]))
        (conditions[r].is_by_name() ? by_name : others).push_back(r);
    take(p, parameters[p], by_name, others);
  }
  if (!routes.options_.unused) list_unused(parameters);
}

void RuleMatches::take(std::size_t p, const Parameter& parameter,
                       const std::vector<std::size_t>& by_name,
                       const std::vector<std::size_t>& others) {
  for (const std::size_t rule : by_name) used_[rule] = true;
  for (const std::size_t rule : others) used_[rule] = true;
  const std::vector<std::size_t>& matching = by_name.empty() ? others : by_name;
  if (!matching.empty())
    takers_[p] = matching.front();
  else if (routes_.otherwise_)
    takers_[p] = routes_.rules_.size();
  const std::string subject =
      "parameter '" + parameter.name + "' of shape " + grouping::shape_text(parameter.shape) + ": ";
  if (matching.size() > 1 && !routes_.options_.overlaps) {
    const auto text_of = [&](std::size_t rule) { return title(rule); };
    faults_.push_back(subject + grouping::joined(matching, " and ", text_of) +
                      " match it; RoutesOptions::overlaps lets the first take it");
  }
  if (!takers_[p] && !routes_.options_.unmatched)
    faults_.push_back(subject +
                      "no rule matches it; otherwise() takes all that no rule matches, and "
                      "RoutesOptions::unmatched leaves it out");
}

void RuleMatches::list_unused(std::span<const Parameter> parameters) {
  std::set<std::string_view> names;
  for (const Parameter& parameter : parameters) names.insert(parameter.name);
  for (std::size_t r = 0; r < used_.size(); ++r) {
    std::string absent;
    for (const std::string& name : routes_.rules_[r].match.names)
      if (!names.contains(name)) absent += (absent.empty() ? "'" : ", '") + name + "'";
    if (!absent.empty())
      faults_.push_back(title(r) + ": there is no parameter " + absent +
                        "; RoutesOptions::unused accepts that");
    else if (!used_[r])
      faults_.push_back(title(r) + ": matches no parameter; RoutesOptions::unused accepts that");
  }
}

std::string RuleMatches::title(std::size_t rule) const {
  if (rule < routes_.rules_.size())
    return title_of_rule(rule, routes_.rules_[rule].match, routes_.rules_[rule].route.label);
  const std::string& label = routes_.otherwise_->label;
  return label.empty() ? "otherwise" : "otherwise '" + label + "'";
}

Route RuleMatches::route(std::size_t rule, const Parameter& parameter) const {
  if (rule == routes_.rules_.size()) return *routes_.otherwise_;
  const Routes::Rule& taker = routes_.rules_[rule];
  return taker.choice ? taker.choice(parameter) : taker.route;
}

}  // namespace shampoo
