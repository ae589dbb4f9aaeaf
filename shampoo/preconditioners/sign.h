// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// Sign descent: every element of the direction is the sign of the filtered gradient's
/// [Bernstein 2018]. No state, no rates of its own.
namespace shampoo {

void check(const Sign& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const Sign& kind, const Recipe& recipe);
inline bool is_elementwise(const Sign&) { return true; }
std::span<const RateUse> rates(const Sign& kind, const Recipe& recipe, Role role);
std::vector<Slot> slots(const Sign& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const Sign& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const Sign& kind, const PreconditionerContext& context,
                                          Role role);

}  // namespace shampoo
