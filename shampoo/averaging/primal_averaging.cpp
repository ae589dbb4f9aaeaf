// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/primal_averaging.h"

#include <array>

#include "shampoo/averaging/iterate_averaging.h"

namespace shampoo {

namespace {

class PrimalAverage final : public IterateAveraging {
 public:
  using IterateAveraging::IterateAveraging;

 private:
  double new_weight(const AveragingStep& step) const override {
    return 1 - step.rates.evaluation_interpolation;
  }
};

}  // namespace

void check(const PrimalAveraging&, const Checks&) {}
double weight(const PrimalAveraging&, const Rates&) { return 0; }

std::span<const RateUse> rates(const PrimalAveraging&) {
  using enum RateRange;
  static constexpr std::array<RateUse, 2> both{
      {{"train_interpolation", unit_positive}, {"evaluation_interpolation", unit_open}}};
  return both;
}

std::vector<Slot> slots(const PrimalAveraging&, const Recipe& recipe) {
  return iterate_slots(recipe);
}

double evaluation_extrapolation(const PrimalAveraging&, const Rates& rates) {
  return iterate_extrapolation(rates);
}

std::unique_ptr<GroupAveraging> make(const PrimalAveraging&, const GroupState& state) {
  return std::make_unique<PrimalAverage>(state);
}

}  // namespace shampoo
