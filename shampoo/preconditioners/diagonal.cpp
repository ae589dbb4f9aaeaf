// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/diagonal.h"

#include <array>
#include <cmath>
#include <limits>

#include "shampoo/preconditioners/elementwise_preconditioner.h"

namespace shampoo {

namespace {

using kernels::SecondMoment;

const char* slot_name(Role role) { return role == Role::grafting ? "grafting" : "second_moment"; }

/// The slot that a rule has in addition to V; empty: none.
std::string companion_name(kernels::DirectionRule rule, Role role) {
  const char* const suffix = rule == kernels::DirectionRule::maximal    ? "_maximum"
                             : rule == kernels::DirectionRule::centered ? "_mean"
                                                                        : nullptr;
  return suffix ? slot_name(role) + std::string(suffix) : std::string();
}

class DiagonalPreconditioner final : public ElementwisePreconditioner {
 public:
  DiagonalPreconditioner(const DiagonalOptions& options, Role role, const GroupState& state)
      : options_(options),
        role_(role),
        direction_{options.rule, state.flat(slot_name(role)),
                   state.flat(companion_name(options.rule, role))} {}

  void set_coefficients(const Rates& rates, std::int64_t step,
                        kernels::Coefficients& coefficients) const override {
    const bool grafts = role_ == Role::grafting;
    const double beta2 = grafts ? rates.grafting_beta2 : rates.beta2;
    SecondMoment& moment = grafts ? coefficients.grafting : coefficients.preconditioner;
    moment = {};
    moment.epsilon = grafts ? rates.grafting_epsilon : rates.epsilon;
    // V <- beta2 V + (1 - beta2) G^2
    moment.keep = options_.decays ? beta2 : 1;
    moment.add = options_.weighs ? 1 - beta2 : 1;
    // P = F / (sqrt(V / (1 - beta2^t)) + epsilon)                        [Kingma 2015, Algorithm 1]
    if (options_.corrects_bias) moment.scale = 1 / (1 - std::pow(beta2, static_cast<double>(step)));
  }

  void accumulate(StepContext& step) override {
    for (ChunkContext& chunk : step.chunks) {
      kernels::ElementwiseDirection direction = direction_;
      direction.second_moment = chunk.elements(direction.second_moment);
      direction.companion = chunk.elements(direction.companion);
      if (role_ == Role::grafting) {
        chunk.gradients.grafting = direction;
        chunk.gradients.grafting_norms = chunk.grafting_norms;
      } else {
        chunk.gradients.preconditioner = direction;
        chunk.gradients.direction_norms = chunk.direction_norms;
      }
    }
  }

 private:
  DiagonalOptions options_;
  Role role_;
  kernels::ElementwiseDirection direction_;
};

void refuse_drop_weighting(bool drops, std::string_view option, const Checks& checks) {
  checks.require(!drops, option, "false with drop_weighting", "true");
}

}  // namespace

void check(const AdaGrad& kind, const Recipe& recipe, const Checks& checks) {
  checks.at_least_zero("initial_accumulator", kind.initial_accumulator);
  checks.require(recipe.arithmetic == Arithmetic::float64 ||
                     kind.initial_accumulator <= std::numeric_limits<float>::max(),
                 "initial_accumulator", "finite in float32", kind.initial_accumulator);
}
void check(const RmsProp& kind, const Recipe&, const Checks& checks) {
  refuse_drop_weighting(kind.centered && kind.drop_weighting, "centered", checks);
}
void check(const Adam& kind, const Recipe&, const Checks& checks) {
  refuse_drop_weighting(kind.amsgrad && kind.drop_weighting, "amsgrad", checks);
}

std::span<const RateUse> diagonal_rates(const DiagonalOptions& options, Role role) {
  using enum RateRange;
  static constexpr std::array<RateUse, 2> weighing{{{"epsilon", normal}, {"beta2", unit_open}}};
  static constexpr std::array<RateUse, 2> summing{{{"epsilon", normal}, {"beta2", unit_closed}}};
  static constexpr std::array<RateUse, 2> decaying{
      {{"epsilon", normal}, {"learning_rate_decay", at_least_zero}}};
  static constexpr std::array<RateUse, 2> grafted_weighing{
      {{"grafting_epsilon", normal}, {"grafting_beta2", unit_open}}};
  static constexpr std::array<RateUse, 2> grafted_summing{
      {{"grafting_epsilon", normal}, {"grafting_beta2", unit_closed}}};
  if (!options.has_moment) return {};
  const bool grafts = role == Role::grafting;
  if (options.decays_learning_rate && !grafts) return decaying;
  const std::span<const RateUse> both = options.weighs ? (grafts ? grafted_weighing : weighing)
                                                       : (grafts ? grafted_summing : summing);
  return both.first(options.decays ? 2 : 1);
}

std::vector<Slot> diagonal_slots(const DiagonalOptions& options, Role role, Type arithmetic) {
  if (!options.has_moment) return {};
  std::vector<Slot> slots = {{.name = slot_name(role),
                              .type = arithmetic,
                              .initial = Slot::Initial::constant,
                              .constant = options.initial}};
  const std::string companion = companion_name(options.rule, role);
  if (!companion.empty()) slots.push_back({.name = companion, .type = arithmetic});
  return slots;
}

std::unique_ptr<GroupPreconditioner> make_diagonal(const DiagonalOptions& options, Role role,
                                                   const PreconditionerContext& context) {
  return std::make_unique<DiagonalPreconditioner>(options, role, context.state);
}

}  // namespace shampoo
