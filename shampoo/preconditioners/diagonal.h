// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// Sgd, AdaGrad, RmsProp and Adam, as preconditioner and as grafting: one second moment V, the
/// direction F / (sqrt(V / bias correction) + epsilon).
namespace shampoo {

template <typename Kind>
concept DiagonalKind = std::same_as<Kind, Sgd> || std::same_as<Kind, AdaGrad> ||
    std::same_as<Kind, RmsProp> || std::same_as<Kind, Adam>;

/// How V changes and enters the direction.
struct DiagonalOptions {
  bool has_moment = false;     ///< otherwise P = F
  bool decays = false;         ///< V <- beta2 V + ...; otherwise squares are summed
  bool weighs = false;         ///< squares enter with weight 1 - beta2; otherwise 1
  bool corrects_bias = false;  ///< V / (1 - beta2^t)
};

inline DiagonalOptions diagonal_options(const Sgd&) { return {}; }
inline DiagonalOptions diagonal_options(const AdaGrad&) { return {.has_moment = true}; }
inline DiagonalOptions diagonal_options(const RmsProp& kind) {
  return {.has_moment = true, .decays = true, .weighs = !kind.drop_weighting};
}
inline DiagonalOptions diagonal_options(const Adam& kind) {
  return {.has_moment = true,
          .decays = true,
          .weighs = !kind.drop_weighting,
          .corrects_bias = !kind.drop_weighting};
}

std::span<const RateUse> diagonal_rates(const DiagonalOptions& options, Role role);
std::vector<Slot> diagonal_slots(const DiagonalOptions& options, Role role, Type arithmetic);
std::unique_ptr<GroupPreconditioner> make_diagonal(const DiagonalOptions& options, Role role,
                                                   const PreconditionerContext& context);

void check(const DiagonalKind auto&, const Recipe&, const Checks&) {}
bool has_refresh(const DiagonalKind auto&, const Recipe&) { return false; }
std::span<const RateUse> rates(const DiagonalKind auto& kind, const Recipe&, Role role) {
  return diagonal_rates(diagonal_options(kind), role);
}
std::vector<Slot> slots(const DiagonalKind auto& kind, const Recipe& recipe,
                        std::span<const std::int64_t>, Role role) {
  return diagonal_slots(diagonal_options(kind), role, arithmetic_type(recipe));
}
std::int64_t work(const DiagonalKind auto&, const Recipe&, std::span<const std::int64_t>) {
  return 0;
}
std::unique_ptr<GroupPreconditioner> make(const DiagonalKind auto& kind,
                                          const PreconditionerContext& context, Role role) {
  return make_diagonal(diagonal_options(kind), role, context);
}

}  // namespace shampoo
