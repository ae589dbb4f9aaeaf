// SPDX-License-Identifier: Apache-2.0
// Schedules along half a cosine.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>

#include "shampoo/schedules/schedule_rule.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

namespace {

/// 1 + cos(pi step / steps)
double height(std::int64_t step, std::int64_t steps) {
  return 1 + std::cos(std::numbers::pi * static_cast<double>(step) / static_cast<double>(steps));
}

/// minimum + (base - minimum) (1 + cos(pi step / steps)) / 2
double annealed(double base, double minimum, std::int64_t step, std::int64_t steps) {
  return minimum + (base - minimum) * height(step, steps) / 2;
}

/// value <- minimum + (value - minimum) h(t) / h(t - 1), with h(t) = 1 + cos(pi t / steps); where
/// h(t - 1) is 0, plus (base - minimum) (1 - cos(pi / steps)) / 2
class CosineRule final : public ScheduleRule {
 public:
  explicit CosineRule(const schedules::Cosine& kind) : kind_(kind) {}

  double next(double base, double current, std::int64_t step) const override {
    const std::int64_t steps = kind_.steps;
    if (step == 0) return current;
    if ((step - 1) % steps == 0 && (step - 1) / steps % 2 == 1)
      return current + (base - kind_.minimum) *
                           (1 - std::cos(std::numbers::pi / static_cast<double>(steps))) / 2;
    return height(step, steps) / height(step - 1, steps) * (current - kind_.minimum) +
           kind_.minimum;
  }
  double restart(double base, double) const override {
    return annealed(base, kind_.minimum, 0, kind_.steps);
  }

 private:
  schedules::Cosine kind_;
};

class WarmRestartsRule final : public ScheduleRule {
 public:
  explicit WarmRestartsRule(const schedules::WarmRestarts& kind) : kind_(kind) {}

  double next(double base, double, std::int64_t step) const override {
    constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();
    std::int64_t steps = kind_.first;
    if (kind_.factor == 1) step %= steps;
    while (step >= steps) {
      step -= steps;
      steps = steps <= longest / kind_.factor ? steps * kind_.factor : longest;
    }
    return annealed(base, kind_.minimum, step, steps);
  }

 private:
  schedules::WarmRestarts kind_;
};

class OneCycleRule final : public ScheduleRule {
 public:
  explicit OneCycleRule(const schedules::OneCycle& kind) : kind_(kind) {}

  double next(double base, double, std::int64_t step) const override {
    const auto steps = static_cast<double>(kind_.steps);
    const double start = base / kind_.start_divisor, end = start / kind_.final_divisor;
    const double top = kind_.rise * steps - 1, last = steps - 1;
    if (kind_.three_phases) {
      const std::array<Phase, 3> phases{
          {{top, start, base}, {2 * kind_.rise * steps - 2, base, start}, {last, start, end}}};
      return value(phases, std::min(static_cast<double>(step), last));
    }
    const std::array<Phase, 2> phases{{{top, start, base}, {last, base, end}}};
    return value(phases, std::min(static_cast<double>(step), last));
  }

 private:
  struct Phase {
    double last;  ///< step in which it ends
    double from, to;
  };

  double value(std::span<const Phase> phases, double step) const {
    double begin = 0;
    std::size_t i = 0;
    for (; i + 1 < phases.size() && step > phases[i].last; ++i) begin = phases[i].last;
    const Phase& phase = phases[i];
    const double part = phase.last == begin ? 1 : (step - begin) / (phase.last - begin);
    if (kind_.linear) return (phase.to - phase.from) * part + phase.from;
    return phase.to + (phase.from - phase.to) / 2.0 * (std::cos(std::numbers::pi * part) + 1);
  }

  schedules::OneCycle kind_;
};

}  // namespace

Schedule::Schedule(const schedules::Cosine& kind) {
  const Checks checks("schedules::Cosine");
  checks.at_least_one("steps", kind.steps);
  checks.at_least_zero("minimum", kind.minimum);
  rule_ = std::make_shared<CosineRule>(kind);
}

Schedule::Schedule(const schedules::WarmRestarts& kind) {
  const Checks checks("schedules::WarmRestarts");
  checks.at_least_one("first", kind.first);
  checks.at_least_one("factor", kind.factor);
  checks.at_least_zero("minimum", kind.minimum);
  rule_ = std::make_shared<WarmRestartsRule>(kind);
}

Schedule::Schedule(const schedules::OneCycle& kind) {
  const Checks checks("schedules::OneCycle");
  checks.at_least_one("steps", kind.steps);
  const double most = kind.three_phases ? 0.5 : 1;
  checks.require(kind.rise >= 0 && kind.rise <= most, "rise",
                 kind.three_phases ? "in [0, 0.5] with three_phases" : "in [0, 1]", kind.rise);
  checks.positive("start_divisor", kind.start_divisor);
  checks.positive("final_divisor", kind.final_divisor);
  rule_ = std::make_shared<OneCycleRule>(kind);
}

}  // namespace shampoo
