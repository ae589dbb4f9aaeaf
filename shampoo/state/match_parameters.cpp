// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/match_parameters.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/validation/rate_ranges.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const RegisteredParameter& registered, const std::string& what) {
  throw std::invalid_argument("state dict: parameter '" + registered.parameter().name +
                              "': " + what);
}

void compare_recipes(const RegisteredParameter& registered, const ParameterState& saved,
                     const LoadOptions& options) {
  if (options.keep_recipes) return;
  for (const RecipeField& field : fields_of(registered.group->recipe())) {
    if (field.name == "blocking") continue;  // boxes are compared instead
    if (field.name == "arithmetic" && options.convert_types) continue;
    const auto found = std::ranges::find(saved.recipe, field.name, &RecipeField::name);
    const std::string value = found == saved.recipe.end() ? "nothing" : found->value;
    if (value != field.value)
      fail(registered, "recipe." + field.name + ": the state dict has " + value + ", the group " +
                           field.value + "; LoadOptions::keep_recipes accepts that");
  }
}

/// The names of the rates whose values differ.
std::string difference(const Rates& a, const Rates& b) {
  std::vector<std::optional<double>> others;
  for_each_field([&](std::string_view, const auto& value) { others.emplace_back(value); }, b);
  std::string names;
  std::size_t i = 0;
  for_each_field(
      [&](std::string_view name, const auto& value) {
        if (others[i++] == value) return;
        names.append(names.empty() ? "" : ", ").append(name);
      },
      a);
  return names;
}

void add_rates(const RegisteredParameter& registered, const ParameterState& saved,
               const LoadOptions& options, std::map<int, const ParameterState*>& firsts,
               Match& match) {
  if (options.keep_rates) return;
  const auto [first, is_new] = firsts.emplace(registered.group_index, &saved);
  if (is_new) {
    const RateRanges ranges(registered.group->recipe());
    const Rates rates = ranges.read_from(saved.rates, registered.group->rates);
    ranges.check(rates, registered.group_index);
    match.rates[registered.group_index] = rates;
  } else if (saved.rates != first->second->rates) {
    fail(registered, "is in group " + std::to_string(registered.group_index) + " with '" +
                         first->second->name + "', but was saved with other rates (" +
                         difference(saved.rates, first->second->rates) +
                         "); LoadOptions::keep_rates keeps those of the group");
  }
}

}  // namespace

Match match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                       const LoadOptions& options, LoadReport& report) {
  std::map<std::string_view, const ParameterState*> by_name;
  for (const ParameterState& saved : dict.parameters)
    if (saved.name.starts_with(options.prefix)) by_name.emplace(saved.name, &saved);

  Match match{.rows = std::vector<const ParameterState*>(parameters.size()), .rates = {}};
  std::map<int, const ParameterState*> firsts;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const RegisteredParameter& registered = parameters[row];
    const std::string& name = registered.parameter().name;
    if (!name.starts_with(options.prefix)) continue;
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      report.missing.push_back(name);
      continue;
    }
    const ParameterState& saved = *found->second;
    by_name.erase(found);
    if (saved.shape != registered.parameter().shape)
      fail(registered, "shape: must be " + shape_text(registered.parameter().shape) + ", got " +
                           shape_text(saved.shape));
    compare_recipes(registered, saved, options);
    add_rates(registered, saved, options, firsts, match);
    match.rows[row] = &saved;
  }
  for (const auto& [name, saved] : by_name) report.unexpected.emplace_back(name);
  return match;
}

}  // namespace shampoo
