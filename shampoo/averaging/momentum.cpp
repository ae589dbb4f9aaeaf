// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/momentum.h"

#include <array>

namespace shampoo {

namespace {

constexpr const char* momentum_slot = "momentum";

class MomentumAveraging final : public GroupAveraging {
 public:
  MomentumAveraging(const Momentum& kind, void* buffer) : kind_(kind), buffer_(buffer) {}

  void set_coefficients(const AveragingStep& step,
                        kernels::Coefficients& coefficients) const override {
    coefficients.momentum = step.rates.momentum;
    coefficients.damp = kind_.undamped_start && step.step == 1 ? 1 : 1 - step.rates.dampening;
  }

  void apply(ChunkContext& chunk) override {
    // B <- momentum B + (1 - dampening) P ; P <- B, or (1 - dampening) P + momentum B
    chunk.update.averaging =
        kind_.nesterov ? kernels::AveragingRule::nesterov : kernels::AveragingRule::momentum;
    chunk.update.averaging_state = chunk.elements(buffer_);
  }

 private:
  Momentum kind_;
  void* buffer_;  ///< [backend] B
};

}  // namespace

void check(const Momentum&, const Checks&) {}
double weight(const Momentum&, const Rates&) { return 0; }

std::span<const RateUse> rates(const Momentum&) {
  using enum RateRange;
  static constexpr std::array<RateUse, 2> both{{{"momentum", unit_open}, {"dampening", unit_open}}};
  return both;
}

std::vector<Slot> slots(const Momentum&, const Recipe& recipe) {
  return {{.name = momentum_slot, .type = arithmetic_type(recipe)}};
}

std::unique_ptr<GroupAveraging> make(const Momentum& kind, const GroupState& state) {
  return std::make_unique<MomentumAveraging>(kind, state.flat(momentum_slot));
}

}  // namespace shampoo
