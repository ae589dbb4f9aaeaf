// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/value_averaging.h"

#include "shampoo/averaging/averaging.h"
#include "shampoo/averaging/exponential_average.h"
#include "shampoo/averaging/lookahead.h"
#include "shampoo/averaging/stochastic_weight_average.h"

namespace shampoo {

namespace {

constexpr const char* value_average_slot = "value_average";

void check(const NoValueAverage&, const Recipe&, const Checks&) {}
double new_value_weight(const NoValueAverage&, std::int64_t) { return 0; }
bool replaces_values(const NoValueAverage&) { return false; }

}  // namespace

GroupValueAveraging::GroupValueAveraging(const Recipe& recipe, const GroupState& state,
                                         kernels::StagedArrays& columns, std::size_t blocks)
    : recipe_(recipe),
      average_(state.flat(value_average_slot)),
      weights_(columns.add<double>(blocks)) {}

void GroupValueAveraging::prepare(std::size_t block, std::int64_t step) {
  weights_[block] = std::visit([&](const auto& kind) { return new_value_weight(kind, step); },
                               recipe_.value_averaging);
}

void GroupValueAveraging::apply(ChunkContext& chunk) const {
  // A <- A + weight (W - A) ; W <- A under Lookahead
  chunk.update.value_average = {.weights = weights_.data() + chunk.place.first_block,
                                .average = chunk.elements(average_),
                                .replaces = replaces_values(recipe_)};
}

void check_value_averaging(const Recipe& recipe, const Checks& checks) {
  std::visit(
      [&]<typename Kind>(const Kind& kind) {
        checks.require(!averages_values(recipe) || !averages_iterate(recipe),
                       "recipe.value_averaging",
                       "none with an averaging of iterates, which has evaluation values of its own",
                       Kind::name);
        check(kind, recipe, checks);
      },
      recipe.value_averaging);
}

bool averages_values(const Recipe& recipe) {
  return !std::holds_alternative<NoValueAverage>(recipe.value_averaging);
}

bool replaces_values(const Recipe& recipe) {
  return std::visit([](const auto& kind) { return replaces_values(kind); }, recipe.value_averaging);
}

std::vector<Slot> value_averaging_slots(const Recipe& recipe) {
  if (!averages_values(recipe)) return {};
  return {{.name = value_average_slot,
           .type = arithmetic_type(recipe),
           .initial = Slot::Initial::value}};
}

std::unique_ptr<GroupValueAveraging> make_value_averaging(const Recipe& recipe,
                                                          const GroupState& state,
                                                          kernels::StagedArrays& columns,
                                                          std::size_t blocks) {
  if (!averages_values(recipe)) return nullptr;
  return std::make_unique<GroupValueAveraging>(recipe, state, columns, blocks);
}

}  // namespace shampoo
