// SPDX-License-Identifier: Apache-2.0
#include "shampoo/averaging/schedule_free.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "shampoo/averaging/iterate_averaging.h"

namespace shampoo {

namespace {

/// Any number of such weights has a finite sum.
constexpr double largest_weight = 1e288;

class WeightedMean final : public IterateAveraging {
 public:
  using IterateAveraging::IterateAveraging;

 private:
  /// w_t / (w_1 + ... + w_t) [Defazio 2024, (23)]; 0 for w_t = 0, also where all have been 0
  double new_weight(const AveragingStep& step) const override {
    return step.weight == 0 ? 0 : step.weight / step.weight_sum;
  }
};

}  // namespace

void check(const ScheduleFree& kind, const Checks& checks) {
  checks.at_least_zero("recipe.averaging.power", kind.power);
}

double weight(const ScheduleFree& kind, const Rates& rates) {
  return std::min(std::pow(rates.learning_rate, kind.power), largest_weight);
}

std::span<const RateUse> rates(const ScheduleFree&) {
  using enum RateRange;
  static constexpr std::array<RateUse, 1> one{{{"train_interpolation", unit_positive}}};
  return one;
}

std::vector<Slot> slots(const ScheduleFree&, const Recipe& recipe) { return iterate_slots(recipe); }

double evaluation_extrapolation(const ScheduleFree&, const Rates& rates) {
  return iterate_extrapolation(rates);
}

std::unique_ptr<GroupAveraging> make(const ScheduleFree&, const GroupState& state) {
  return std::make_unique<WeightedMean>(state);
}

}  // namespace shampoo
