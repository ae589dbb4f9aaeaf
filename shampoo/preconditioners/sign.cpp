// SPDX-License-Identifier: Apache-2.0
#include "shampoo/preconditioners/sign.h"

#include "shampoo/preconditioners/elementwise_preconditioner.h"

namespace shampoo {

namespace {

class SignPreconditioner final : public ElementwisePreconditioner {
 public:
  void set_coefficients(const Rates&, std::int64_t, kernels::Coefficients&) const override {}

  void accumulate(StepContext& step) override {
    // P = sign(F), sign(0) = 0                                                  [Bernstein 2018]
    for (ChunkContext& chunk : step.chunks) {
      chunk.gradients.preconditioner = {.rule = kernels::DirectionRule::sign};
      chunk.gradients.direction_norms = chunk.direction_norms;
    }
  }
};

}  // namespace

void check(const Sign&, const Recipe&, const Checks&) {}
bool has_refresh(const Sign&, const Recipe&) { return false; }
std::span<const RateUse> rates(const Sign&, const Recipe&, Role) { return {}; }

std::vector<Slot> slots(const Sign&, const Recipe&, std::span<const std::int64_t>, Role) {
  return {};
}

PreconditionerWork work(const Sign&, const Recipe&, std::span<const std::int64_t>) { return {}; }

std::unique_ptr<GroupPreconditioner> make(const Sign&, const PreconditionerContext&, Role) {
  return std::make_unique<SignPreconditioner>();
}

}  // namespace shampoo
