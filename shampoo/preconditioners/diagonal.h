// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <memory>
#include <span>
#include <vector>

#include "shampoo/preconditioners/preconditioner.h"

/// Sgd, AdaGrad, RmsProp and Adam, as preconditioner and as grafting: one second moment V, the
/// direction F / (sqrt(V / bias correction) + epsilon). With amsgrad and centered, V has a
/// companion slot.
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
  double initial = 0;          ///< initial value of V
  bool decays_learning_rate = false;
  kernels::DirectionRule rule = kernels::DirectionRule::identity;
};

inline DiagonalOptions diagonal_options(const Sgd&) { return {}; }
inline DiagonalOptions diagonal_options(const AdaGrad& kind) {
  return {.has_moment = true,
          .initial = kind.initial_accumulator,
          .decays_learning_rate = true,
          .rule = kernels::DirectionRule::diagonal};
}
inline DiagonalOptions diagonal_options(const RmsProp& kind) {
  using enum kernels::DirectionRule;
  return {.has_moment = true,
          .decays = true,
          .weighs = !kind.drop_weighting,
          .rule = kind.centered ? centered : diagonal};
}
inline DiagonalOptions diagonal_options(const Adam& kind) {
  using enum kernels::DirectionRule;
  return {.has_moment = true,
          .decays = true,
          .weighs = !kind.drop_weighting,
          .corrects_bias = !kind.drop_weighting,
          .rule = kind.amsgrad ? maximal : diagonal};
}

std::span<const RateUse> diagonal_rates(const DiagonalOptions& options, Role role);
std::vector<Slot> diagonal_slots(const DiagonalOptions& options, Role role, Type arithmetic);
std::unique_ptr<GroupPreconditioner> make_diagonal(const DiagonalOptions& options, Role role,
                                                   const PreconditionerContext& context);

inline void check(const Sgd&, const Recipe&, const Checks&) {}
void check(const AdaGrad& kind, const Recipe& recipe, const Checks& checks);
void check(const RmsProp& kind, const Recipe& recipe, const Checks& checks);
void check(const Adam& kind, const Recipe& recipe, const Checks& checks);
bool has_refresh(const DiagonalKind auto&, const Recipe&) { return false; }
bool is_elementwise(const DiagonalKind auto&) { return true; }
std::span<const RateUse> rates(const DiagonalKind auto& kind, const Recipe&, Role role) {
  return diagonal_rates(diagonal_options(kind), role);
}
std::vector<Slot> slots(const DiagonalKind auto& kind, const Recipe& recipe,
                        std::span<const std::int64_t>, Role role) {
  return diagonal_slots(diagonal_options(kind), role, arithmetic_type(recipe));
}
PreconditionerWork work(const DiagonalKind auto&, const Recipe&, std::span<const std::int64_t>) {
  return {};
}
std::unique_ptr<GroupPreconditioner> make(const DiagonalKind auto& kind,
                                          const PreconditionerContext& context, Role role) {
  return make_diagonal(diagonal_options(kind), role, context);
}

}  // namespace shampoo
