// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/averaging/averaging.h"

/// Heavy-ball momentum of the direction [Polyak 1964], with Nesterov's form of [Sutskever 2013]; B
/// starts at 0, so the first direction is damped, too, unless undamped_start is set.
namespace shampoo {

void check(const Momentum& kind, const Checks& checks);
std::span<const RateUse> rates(const Momentum& kind);
double weight(const Momentum& kind, const Rates& rates);
/// "momentum": B.
std::vector<Slot> slots(const Momentum& kind, const Recipe& recipe);
std::unique_ptr<GroupAveraging> make(const Momentum& kind, const GroupState& state);

}  // namespace shampoo
