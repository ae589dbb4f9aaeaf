// SPDX-License-Identifier: Apache-2.0
#include "shampoo/state/match_parameters.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

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

/// Takes over the saved rates of the parameters of one group.
class SavedRates {
 public:
  explicit SavedRates(const Group& group)
      : group_(group), ranges_(group.recipe()), all_{group.rates, {}} {}

  void add(const RegisteredParameter& registered, const ParameterState& saved, LoadFaults& faults) {
    const Rates read = ranges_.read_from(saved.rates, group_.rates);
    std::string differing;  // from the other parameters of the group
    const auto take = [&](std::string_view name, const std::optional<double>& value) {
      if (std::ranges::find(saved.own_rates, name) != saved.own_rates.end()) {
        if (value && ranges_.reads(name))
          all_.own.push_back({registered.index, RateField(name).name(), *value});
        return;
      }
      const auto [first, is_new] = firsts_.emplace(name, First{value, saved.name});
      if (!is_new && first->second.value != value) {
        differing.append(differing.empty() ? "" : ", ").append(name);
        other_ = first->second.parameter;
      }
    };
    for_each_field([&](std::string_view name, const auto& value) { take(name, value); }, read);
    if (!differing.empty())
      faults.add(line_of(registered, "is in " + group_.title() + " with '" + other_ +
                                         "', but was saved with other rates (" + differing +
                                         "); LoadOptions::keep_rates keeps those of the group"));
    loaded_.insert(registered.index);
    add_unfollowed(registered, saved, faults);
    add_base(registered, saved, faults);
    if (loaded_.size() == 1 || !saved.own_rates.empty()) check(registered, read, faults);
  }

  /// With what parameters that are not loaded have for themselves.
  GroupRates all() && {
    for_each_field(
        [&](std::string_view name, auto& rate) {
          const auto first = firsts_.find(name);
          const auto unfollowed = unfollowed_.find(name);
          if (first != firsts_.end())
            assign(rate, first->second.value);
          else if (unfollowed != unfollowed_.end() && unfollowed->second.size() == 1)
            assign(rate, *unfollowed->second.begin());
        },
        all_.rates);
    for (const OwnRate& own : group_.own_rates())
      if (!loaded_.contains(own.parameter)) all_.own.push_back(own);
    std::ranges::sort(all_.own, {},
                      [](const OwnRate& own) { return std::pair(own.parameter, own.rate); });
    return std::move(all_);
  }

  /// Of the group, if it was saved with schedules.
  const std::optional<Rates>& base_rates() const { return base_; }

 private:
  struct First {
    std::optional<double> value;
    std::string parameter;
  };

  /// The group's rates that the parameter had otherwise.
  void add_unfollowed(const RegisteredParameter& registered, const ParameterState& saved,
                      LoadFaults& faults) {
    if (!saved.group_rates) return;
    const Rates read = ranges_.read_from(*saved.group_rates, group_.rates);
    check(registered, read, faults);
    for (const std::string& own : saved.own_rates) {
      const RateField field{std::string_view(own)};
      unfollowed_[field.name()].insert(field.of(read));
    }
  }

  void check(const RegisteredParameter& registered, const Rates& rates, LoadFaults& faults) const {
    try {
      ranges_.check(rates, group_.title());
    } catch (const std::invalid_argument& error) {
      faults.add(line_of(registered, error.what()));
    }
  }

  void add_base(const RegisteredParameter& registered, const ParameterState& saved,
                LoadFaults& faults) {
    if (base_of_ == nullptr)
      base_of_ = &saved;
    else if (saved.base_rates != base_of_->base_rates)
      faults.add(line_of(registered, "is in " + group_.title() + " with '" + base_of_->name +
                                         "', but was saved with other base rates of schedules; "
                                         "LoadOptions::keep_rates keeps those of the group"));
    if (!saved.base_rates) return;
    base_ = ranges_.read_from(*saved.base_rates, group_.base_rates);
    check(registered, *base_, faults);
  }

  const Group& group_;
  RateRanges ranges_;
  GroupRates all_;
  std::map<std::string_view, First> firsts_;  ///< by rate: the first that is the group's
  /// By rate: those of the groups whose parameters had others. Of several none is the group's.
  std::map<std::string_view, std::set<std::optional<double>>> unfollowed_;
  std::set<std::size_t> loaded_;
  std::string other_;
  const ParameterState* base_of_ = nullptr;  ///< the first
  std::optional<Rates> base_;
};

}  // namespace

StateMatch match_parameters(std::span<const RegisteredParameter> parameters, const StateDict& dict,
                            const LoadOptions& options, LoadReport& report, LoadFaults& faults) {
  std::map<std::string_view, const ParameterState*> by_name;
  for (const ParameterState& saved : dict.parameters)
    if (saved.name.starts_with(options.prefix)) by_name.emplace(saved.name, &saved);

  StateMatch match{.rows = std::vector<const ParameterState*>(parameters.size()), .rates = {}};
  std::map<int, SavedRates> rates;  // by group
  for (std::size_t row = 0; row < parameters.size(); ++row) {
    const RegisteredParameter& registered = parameters[row];
    const std::string& name = registered.parameter().name;
    if (!name.starts_with(options.prefix)) continue;
    const auto found = by_name.find(name);
    if (registered.is_frozen()) {  // has no state here
      if (found != by_name.end() && !registered.thawed) {
        report.frozen.push_back(name);
        by_name.erase(found);
      }
      continue;
    }
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
    if (!options.keep_rates)
      rates.try_emplace(registered.group_index, *registered.group)
          .first->second.add(registered, saved, faults);
    match.rows[row] = &saved;
  }
  for (auto& [group, saved] : rates) {
    if (saved.base_rates()) match.base_rates.emplace(group, *saved.base_rates());
    match.rates.emplace(group, std::move(saved).all());
  }
  for (const auto& [name, saved] : by_name) report.unexpected.emplace_back(name);
  return match;
}

void require_prefix(std::span<const std::span<const RegisteredParameter>> optimizers,
                    const LoadOptions& options) {
  if (options.prefix.empty() || !options.strict) return;
  const auto has_it = [&](const RegisteredParameter& registered) {
    return registered.parameter().name.starts_with(options.prefix);
  };
  if (std::ranges::none_of(optimizers, [&](const auto& parameters) {
        return std::ranges::any_of(parameters, has_it);
      }))
    throw std::invalid_argument("LoadOptions::prefix '" + options.prefix +
                                "': no parameter's name starts with it; " + strict_hint);
}

}  // namespace shampoo
