// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/averaging/averaging.h"

/// Heavy-ball momentum of the direction, as in torch.optim.SGD.
namespace shampoo {

std::span<const RateUse> rates(const Momentum& kind);
/// "momentum": B.
std::vector<Slot> slots(const Momentum& kind, const Recipe& recipe);
std::unique_ptr<GroupAveraging> make(const Momentum& kind, const GroupState& state);

}  // namespace shampoo
