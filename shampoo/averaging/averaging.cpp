// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/averaging.h"

#include "shampoo/averaging/momentum.h"

namespace shampoo {

namespace {

std::span<const RateUse> rates(const NoAveraging&) { return {}; }
std::vector<Slot> slots(const NoAveraging&, const Recipe&) { return {}; }
std::unique_ptr<GroupAveraging> make(const NoAveraging&, const GroupState&) { return nullptr; }

}  // namespace

std::span<const RateUse> averaging_rates(const Recipe& recipe) {
  return std::visit([](const auto& kind) { return rates(kind); }, recipe.averaging);
}

std::vector<Slot> averaging_slots(const Recipe& recipe) {
  return std::visit([&](const auto& kind) { return slots(kind, recipe); }, recipe.averaging);
}

std::unique_ptr<GroupAveraging> make_averaging(const Recipe& recipe, const GroupState& state) {
  return std::visit([&](const auto& kind) { return make(kind, state); }, recipe.averaging);
}

}  // namespace shampoo
