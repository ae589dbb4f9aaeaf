// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// Muon and spectral descent: the direction is the orthogonalised filtered gradient of a matrix
/// [Jordan 2024; Carlson 2015]. No state beyond the first moment, no refresh.
namespace shampoo {

void check(const Spectral& kind, const Recipe& recipe, const Checks& checks);
/// Blocks are matrices.
std::string block_fault(const Spectral& kind, std::span<const std::int64_t> extent);
bool has_refresh(const Spectral& kind, const Recipe& recipe);
/// Without grafting, by a Newton-Schulz iteration of which a long matrix needs a panel at a time.
bool is_blockwise(const Spectral& kind, const Recipe& recipe);
std::span<const RateUse> rates(const Spectral& kind, const Recipe& recipe, Role role);
std::vector<Slot> slots(const Spectral& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent, Role role);
PreconditionerWork work(const Spectral& kind, const Recipe& recipe,
                        std::span<const std::int64_t> extent);
std::unique_ptr<GroupPreconditioner> make(const Spectral& kind,
                                          const PreconditionerContext& context, Role role);

}  // namespace shampoo
