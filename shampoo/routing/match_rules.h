// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shampoo/routes.h"

namespace shampoo {

/// "rule 2 'biases' (pattern '.*bias', orders 1)"
std::string title_of_rule(std::size_t rule, const Match& match, const std::string& label);

/// Throws std::invalid_argument, which begins with `rule`, unless it is a regular expression
/// of at most 1000 characters.
void check_pattern(const std::string& rule, const std::string& pattern);

/// Which rule takes which parameter.
class RuleMatches {
 public:
  RuleMatches(const Routes& routes, std::span<const Parameter> parameters);

  /// By parameter: the rule that takes it, the number of rules for otherwise(); empty: none does.
  const std::vector<std::optional<std::size_t>>& takers() const { return takers_; }
  /// A line for each thing that the options do not accept.
  const std::vector<std::string>& faults() const { return faults_; }
  /// See title_of_rule(); "otherwise" behind the last.
  std::string title(std::size_t rule) const;
  /// The route by which the rule takes this parameter.
  Route route(std::size_t rule, const Parameter& parameter) const;

 private:
  void take(std::size_t p, const Parameter& parameter, const std::vector<std::size_t>& by_name,
            const std::vector<std::size_t>& others);
  void list_unused(std::span<const Parameter> parameters);

  const Routes& routes_;
  std::vector<std::optional<std::size_t>> takers_;
  std::vector<bool> used_;  ///< by rule: it matches a parameter
  std::vector<std::string> faults_;
};

}  // namespace shampoo
