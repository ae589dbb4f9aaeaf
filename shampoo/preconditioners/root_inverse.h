// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/factored.h"
#include "shampoo/preconditioners/preconditioner.h"

/// Shampoo by inverse roots of Kronecker factors [Gupta 2018; Anil 2020; Shi 2023].
namespace shampoo {

void check(const RootInverse& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const RootInverse& kind, const Recipe& recipe);
bool acts_on(const RootInverse& kind, std::span<const std::int64_t> extent);
/// Once there are roots.
inline bool is_blockwise(const RootInverse&, const Recipe& recipe) {
  return recipe.refresh.first.has_value();
}
std::span<const RateUse> rates(const RootInverse& kind, const Recipe& recipe, Role role);
/// "factor/k" and "root/k" of every dimension k that is preconditioned, and "root_scale/k" of roots
/// in float16.
std::vector<Slot> slots(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const RootInverse& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const RootInverse& kind,
                                          const PreconditionerContext& context, Role role);

/// With other statistics.
std::unique_ptr<GroupPreconditioner> make_with(Statistic statistic, const RootInverse& kind,
                                               const PreconditionerContext& context);

/// Inverse exponent of one dimension of blocks of an order; 0: the dimension is left alone.
double exponent_of(const RootInverse& kind, int order, int dimension);

}  // namespace shampoo
