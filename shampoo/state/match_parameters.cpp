// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/match_parameters.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "shampoo/protocol/diagnostics.h"
#include "shampoo/validation/rate_ranges.h"
#include "shampoo/validation/recipe_fields.h"

namespace shampoo {

namespace {

std::string line_of(const RegisteredParameter& registered, const std::string& what) {
  return "parameter '" + registered.parameter().name + "': " + what;
}

/// The name is `parent`, or of a field below it.
bool is_at_or_below(std::string_view name, std::string_view parent) {
  return name.starts_with(parent) && (name.size() == parent.size() || name[parent.size()] == '.');
}

bool may_differ(std::string_view field, const LoadOptions& options) {
  if (options.keep_recipes || is_at_or_below(field, "blocking")) return true;  // boxes are compared
  if (field == "arithmetic" && options.convert_types) return true;
  return std::ranges::any_of(options.keep_recipe_fields,
                             [&](const std::string& kept) { return is_at_or_below(field, kept); });
}

void compare_recipes(const RegisteredParameter& registered, const ParameterState& saved,
                     const LoadOptions& options, LoadFaults& faults) {
  if (options.keep_recipes) return;
  std::string other_kind;  // what is below is not compared
  for (const auto& [name, value, usual] : fields_with_defaults(registered.group->recipe())) {
    if (!other_kind.empty() && is_at_or_below(name, other_kind)) continue;
    const auto found = std::ranges::find(saved.recipe, name, &RecipeField::name);
    const std::string& other = found == saved.recipe.end() ? usual : found->value;
    if (value == other) continue;
    other_kind = name;
    if (may_differ(name, options)) continue;
    faults.add(line_of(registered, "recipe." + name + ": the state dict has " + other +
                                       (found == saved.recipe.end() ? " (the default)" : "") +
                                       ", the group " + value +
                                       "; LoadOptions::keep_recipes accepts that"));
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
               Match& match, LoadFaults& faults) {
  if (options.keep_rates) return;
  const auto [first, is_new] = firsts.emplace(registered.group_index, &saved);
  if (is_new) {
    const RateRanges ranges(registered.group->recipe());
    const Rates rates = ranges.read_from(saved.rates, registered.group->rates);
    match.rates[registered.group_index] = rates;
    try {
      ranges.check(rates, registered.group_index);
      if (saved.base_rates) {
        const Rates& kept = registered.group->base_rates;
        const Rates base = ranges.read_from(*saved.base_rates, kept);
        ranges.check(base, registered.group_index);
        match.base_rates[registered.group_index] = base;
      }
    } catch (const std::invalid_argument& error) {
      faults.add(line_of(registered, error.what()));
    }
  } else if (saved.rates != first->second->rates) {
    faults.add(line_of(registered, "is in group " + std::to_string(registered.group_index) +
                                       " with '" + first->second->name +
                                       "', but was saved with other rates (" +
                                       difference(saved.rates, first->second->rates) +
                                       "); LoadOptions::keep_rates keeps those of the group"));
  } else if (saved.base_rates != first->second->base_rates) {
    faults.add(line_of(registered, "is in group " + std::to_string(registered.group_index) +
                                       " with '" + first->second->name +
                                       "', but was saved with other base rates of schedules; "
                                       "LoadOptions::keep_rates keeps those of the group"));
  }
}

}  // namespace

Match match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                       const LoadOptions& options, LoadReport& report, LoadFaults& faults) {
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
    if (saved.shape != registered.parameter().shape) {
      faults.add(line_of(registered, "shape: must be " + shape_text(registered.parameter().shape) +
                                         ", got " + shape_text(saved.shape)));
      continue;
    }
    compare_recipes(registered, saved, options, faults);
    add_rates(registered, saved, options, firsts, match, faults);
    match.rows[row] = &saved;
  }
  for (const auto& [name, saved] : by_name) report.unexpected.emplace_back(name);
  return match;
}

}  // namespace shampoo
