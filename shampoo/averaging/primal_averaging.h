// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/averaging/averaging.h"

/// Generalized primal averaging [Defazio 2025b]: X <- mu_x X + (1 - mu_x) Z with constant rates.
namespace shampoo {

void check(const PrimalAveraging& kind, const Checks& checks);
std::span<const RateUse> rates(const PrimalAveraging& kind);
double weight(const PrimalAveraging& kind, const Rates& rates);
double evaluation_extrapolation(const PrimalAveraging& kind, const Rates& rates);
/// "iterate": Z.
std::vector<Slot> slots(const PrimalAveraging& kind, const Recipe& recipe);
std::unique_ptr<GroupAveraging> make(const PrimalAveraging& kind, const GroupState& state);

}  // namespace shampoo
