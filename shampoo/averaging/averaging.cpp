// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/averaging.h"

#include "shampoo/averaging/momentum.h"
#include "shampoo/averaging/primal_averaging.h"
#include "shampoo/averaging/schedule_free.h"
#include "shampoo/averaging/value_averaging.h"

namespace shampoo {

namespace {

void check(const NoAveraging&, const Checks&) {}
std::span<const RateUse> rates(const NoAveraging&) { return {}; }
double weight(const NoAveraging&, const Rates&) { return 0; }
std::vector<Slot> slots(const NoAveraging&, const Recipe&) { return {}; }
std::unique_ptr<GroupAveraging> make(const NoAveraging&, const GroupState&) { return nullptr; }

template <typename Kind>
concept AveragesIterate = requires(const Kind& kind, const Rates& rates) {
  evaluation_extrapolation(kind, rates);
};

}  // namespace

void check_averaging(const Recipe& recipe, const Checks& checks) {
  std::visit([&](const auto& kind) { check(kind, checks); }, recipe.averaging);
}

std::span<const RateUse> averaging_rates(const Recipe& recipe) {
  return std::visit([](const auto& kind) { return rates(kind); }, recipe.averaging);
}

double averaging_weight(const Recipe& recipe, const Rates& rates) {
  return std::visit([&](const auto& kind) { return weight(kind, rates); }, recipe.averaging);
}

std::vector<Slot> averaging_slots(const Recipe& recipe) {
  return std::visit([&](const auto& kind) { return slots(kind, recipe); }, recipe.averaging);
}

bool averages_iterate(const Recipe& recipe) {
  return std::visit([]<typename Kind>(const Kind&) { return AveragesIterate<Kind>; },
                    recipe.averaging);
}

bool has_evaluation_values(const Recipe& recipe) {
  return averages_iterate(recipe) || averages_values(recipe);
}

double evaluation_extrapolation(const Recipe& recipe, const Rates& rates) {
  return std::visit(
      [&]<typename Kind>(const Kind& kind) -> double {
        if (averages_values(recipe)) return 1;
        if constexpr (AveragesIterate<Kind>)
          return evaluation_extrapolation(kind, rates);
        else
          return 0;
      },
      recipe.averaging);
}

std::unique_ptr<GroupAveraging> make_averaging(const Recipe& recipe, const GroupState& state) {
  return std::visit([&](const auto& kind) { return make(kind, state); }, recipe.averaging);
}

}  // namespace shampoo
