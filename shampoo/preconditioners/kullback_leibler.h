// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// KL-Shampoo: Shampoo whose factors are whitened by each other's roots [Lin 2025].
namespace shampoo {

void check(const KullbackLeibler& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const KullbackLeibler& kind, const Recipe& recipe);
bool acts_before_refresh(const KullbackLeibler& kind, const Recipe& recipe);
bool acts_on(const KullbackLeibler& kind, std::span<const std::int64_t> extent);
bool is_blockwise(const KullbackLeibler& kind, const Recipe& recipe);
std::span<const RateUse> rates(const KullbackLeibler& kind, const Recipe& recipe, Role role);
/// Those of its form.
std::vector<Slot> slots(const KullbackLeibler& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const KullbackLeibler& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const KullbackLeibler& kind,
                                          const PreconditionerContext& context, Role role);

}  // namespace shampoo
