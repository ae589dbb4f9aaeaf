// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/averaging/averaging.h"

/// Schedule-free averaging [Defazio 2024, Algorithm 1]: X is the mean of all Z, each with the
/// weight learning_rate^power of its step (23). Weights of 0 are skipped, so that X stays where it
/// is.
namespace shampoo {

void check(const ScheduleFree& kind, const Checks& checks);
std::span<const RateUse> rates(const ScheduleFree& kind);
double weight(const ScheduleFree& kind, const Rates& rates);
double evaluation_extrapolation(const ScheduleFree& kind, const Rates& rates);
/// "iterate": Z.
std::vector<Slot> slots(const ScheduleFree& kind, const Recipe& recipe);
std::unique_ptr<GroupAveraging> make(const ScheduleFree& kind, const GroupState& state);

}  // namespace shampoo
