// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/iterate_averaging.h"

namespace shampoo {

namespace {

constexpr const char* iterate_slot = "iterate";

}  // namespace

IterateAveraging::IterateAveraging(const GroupState& state) : iterate_(state.flat(iterate_slot)) {}

void IterateAveraging::set_coefficients(const AveragingStep& step,
                                        kernels::Coefficients& coefficients) const {
  coefficients.iterate_keep = 1 + coefficients.step * coefficients.decay;
  coefficients.decay = 0;
  coefficients.iterate_pull = new_weight(step);
  coefficients.iterate_weight =
      1 - (1 - coefficients.iterate_pull) * step.rates.train_interpolation;
}

void IterateAveraging::apply(ChunkContext& chunk) {
  chunk.update.averaging = kernels::AveragingRule::iterate;
  chunk.update.averaging_state = chunk.elements(iterate_);
}

std::vector<Slot> iterate_slots(const Recipe& recipe) {
  return {{.name = iterate_slot, .type = arithmetic_type(recipe), .initial = Slot::Initial::value}};
}

double iterate_extrapolation(const Rates& rates) { return 1 - 1 / rates.train_interpolation; }

}  // namespace shampoo
