// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// SOAP: second moments in the eigenbases of Kronecker factors [Vyas 2024; George 2018].
namespace shampoo {

void check(const EigenvalueCorrected& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const EigenvalueCorrected& kind, const Recipe& recipe);
bool acts_before_refresh(const EigenvalueCorrected& kind, const Recipe& recipe);
/// True without grafting, which needs F in the block's own coordinates.
bool filters_gradient(const EigenvalueCorrected& kind, const Recipe& recipe);
std::span<const RateUse> rates(const EigenvalueCorrected& kind, const Recipe& recipe, Role role);
/// "factor/k" and "basis/k" of every dimension k that changes its basis; "corrected_eigenvalues";
/// where it filters, "rotated_filtered_gradient": M in the eigenbases.
std::vector<Slot> slots(const EigenvalueCorrected& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const EigenvalueCorrected& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const EigenvalueCorrected& kind,
                                          const PreconditionerContext& context, Role role);

}  // namespace shampoo
