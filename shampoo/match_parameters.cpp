// SPDX-License-Identifier: Apache-2.0
#include "shampoo/match_parameters.h"

#include <algorithm>
#include <set>
#include <stdexcept>

#include "shampoo/fingerprint.h"
#include "shampoo/sayings.h"
#include "shampoo/validate.h"

namespace shampoo {

namespace {

[[noreturn]] void fail(const TrainedParameter& trained, const std::string& what) {
  throw std::invalid_argument("state dict: parameter '" + trained.parameter().name + "': " + what);
}

void compare_recipes(const TrainedParameter& trained, const ParameterState& saved,
                     const LoadOptions& options) {
  if (options.keep_recipes) return;
  for (const RecipeField& field : fields_of(trained.group->recipe())) {
    if (field.name == "blocking") continue;  // boxes say what fits
    if (field.name == "arithmetic" && options.convert_types) continue;
    const auto found = std::ranges::find(saved.recipe, field.name, &RecipeField::name);
    const std::string value = found == saved.recipe.end() ? "nothing" : found->value;
    if (value != field.value)
      fail(trained, "recipe." + field.name + ": the state dict has " + value + ", the group " +
                        field.value + "; LoadOptions::keep_recipes accepts that");
  }
}

/// The rates whose values differ, in words.
std::string difference(const Rates& a, const Rates& b) {
  const std::string lines = rates_text(0, a), others = rates_text(0, b);
  std::string names;
  for_each_rate(a, [&](const char* name, const auto&) {
    const auto line_of = [&](const std::string& text) {
      const std::size_t at = text.find(": " + std::string(name) + " ");
      return text.substr(at, text.find('\n', at) - at);
    };
    if (line_of(lines) != line_of(others)) names += (names.empty() ? "" : ", ") + std::string(name);
  });
  return names;
}

void add_rates(const TrainedParameter& trained, const ParameterState& saved,
               const LoadOptions& options, std::map<int, const ParameterState*>& firsts,
               Match& match) {
  if (options.keep_rates) return;
  const auto [first, is_new] = firsts.emplace(trained.group_index, &saved);
  if (is_new) {
    validate_rates(saved.rates, trained.group->recipe(), trained.group_index);
    match.rates[trained.group_index] = saved.rates;
  } else if (saved.rates != first->second->rates) {
    fail(trained, "is in group " + std::to_string(trained.group_index) + " with '" +
                      first->second->name + "', but was saved with other rates (" +
                      difference(saved.rates, first->second->rates) +
                      "); LoadOptions::keep_rates keeps those of the group");
  }
}

}  // namespace

Match match_parameters(std::span<const TrainedParameter> parameters, const StateDict& dict,
                       const LoadOptions& options, LoadReport& report) {
  std::map<std::string_view, const ParameterState*> by_name;
  for (const ParameterState& saved : dict.parameters)
    if (saved.name.starts_with(options.prefix)) by_name.emplace(saved.name, &saved);

  Match match{.rows = std::vector<const ParameterState*>(parameters.size()), .rates = {}};
  std::map<int, const ParameterState*> firsts;
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const TrainedParameter& trained = parameters[row];
    const std::string& name = trained.parameter().name;
    if (!name.starts_with(options.prefix)) continue;
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      report.missing.push_back(name);
      continue;
    }
    const ParameterState& saved = *found->second;
    by_name.erase(found);
    if (saved.shape != trained.parameter().shape)
      fail(trained, "shape: must be " + shape_text(trained.parameter().shape) + ", got " +
                        shape_text(saved.shape));
    compare_recipes(trained, saved, options);
    add_rates(trained, saved, options, firsts, match);
    match.rows[row] = &saved;
  }
  for (const auto& [name, saved] : by_name) report.unexpected.emplace_back(name);
  return match;
}

}  // namespace shampoo
