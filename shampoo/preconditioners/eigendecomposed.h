// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/factored.h"
#include "shampoo/preconditioners/preconditioner.h"

/// Shampoo by eigenvalues and eigenbases of Kronecker factors [Gupta 2018; Eschenhagen 2025].
namespace shampoo {

void check(const Eigendecomposed& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const Eigendecomposed& kind, const Recipe& recipe);
bool acts_before_refresh(const Eigendecomposed& kind, const Recipe& recipe);
bool acts_on(const Eigendecomposed& kind, std::span<const std::int64_t> extent);
std::span<const RateUse> rates(const Eigendecomposed& kind, const Recipe& recipe, Role role);
/// "factor/k", "basis/k" and "eigenvalues/k" of every dimension k that is preconditioned.
std::vector<Slot> slots(const Eigendecomposed& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const Eigendecomposed& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const Eigendecomposed& kind,
                                          const PreconditionerContext& context, Role role);
/// With other statistics.
std::unique_ptr<GroupPreconditioner> make_with(Statistic statistic, const Eigendecomposed& kind,
                                               const PreconditionerContext& context);

}  // namespace shampoo
