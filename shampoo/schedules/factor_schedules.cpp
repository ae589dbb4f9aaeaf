// SPDX-License-Identifier: Apache-2.0
// Schedules that multiply the rate.
#include <algorithm>
#include <cmath>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

#include "shampoo/schedules/schedule_rule.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

namespace {

/// value <- factor base up to the end, where it is divided out again
class ConstantRule final : public ScheduleRule {
 public:
  explicit ConstantRule(const schedules::Constant& kind) : kind_(kind) {}

  double next(double, double current, std::int64_t step) const override {
    if (step == 0) return current * kind_.factor;
    return step == kind_.steps ? current * (1.0 / kind_.factor) : current;
  }

 private:
  schedules::Constant kind_;
};

/// value <- value (1 + (e - s) / (steps s + (t - 1) (e - s)))
class LinearRule final : public ScheduleRule {
 public:
  explicit LinearRule(const schedules::Linear& kind) : kind_(kind) {}

  double next(double, double current, std::int64_t step) const override {
    const double start = kind_.start_factor, end = kind_.end_factor;
    if (step == 0) return current * start;
    if (step > kind_.steps) return current;
    const double taken =
        static_cast<double>(kind_.steps) * start + static_cast<double>(step - 1) * (end - start);
    // Rounding may lead below 0 in the last step.
    return std::max(current * (1.0 + (end - start) / taken), 0.0);
  }

 private:
  schedules::Linear kind_;
};

/// value <- value ((1 - t / steps) / (1 - (t - 1) / steps))^power
class PolynomialRule final : public ScheduleRule {
 public:
  explicit PolynomialRule(const schedules::Polynomial& kind) : kind_(kind) {}

  double next(double, double current, std::int64_t step) const override {
    if (step == 0 || step > kind_.steps) return current;
    const auto t = static_cast<double>(step), steps = static_cast<double>(kind_.steps);
    return current * std::pow((1.0 - t / steps) / (1.0 - (t - 1) / steps), kind_.power);
  }

 private:
  schedules::Polynomial kind_;
};

/// value <- base / sqrt(1 + t / steps)                                 [Vaswani 2017, (3)]
class InverseSquareRootRule final : public ScheduleRule {
 public:
  explicit InverseSquareRootRule(const schedules::InverseSquareRoot& kind) : kind_(kind) {}

  double next(double base, double, std::int64_t step) const override {
    return base *
           (1.0 / std::sqrt(1.0 + static_cast<double>(step) / static_cast<double>(kind_.steps)));
  }

 private:
  schedules::InverseSquareRoot kind_;
};

/// value <- factor value, in every so many steps
class StepRule final : public ScheduleRule {
 public:
  explicit StepRule(const schedules::Step& kind) : kind_(kind) {}

  double next(double, double current, std::int64_t step) const override {
    return step == 0 || step % kind_.every != 0 ? current : current * kind_.factor;
  }

 private:
  schedules::Step kind_;
};

/// value <- factor^n value, in a step that is there n times
class MilestonesRule final : public ScheduleRule {
 public:
  explicit MilestonesRule(const schedules::Milestones& kind) : factor_(kind.factor) {
    for (const std::int64_t step : kind.steps) ++times_[step];
  }

  double next(double, double current, std::int64_t step) const override {
    const auto found = times_.find(step);
    return found == times_.end() ? current : current * std::pow(factor_, found->second);
  }

 private:
  double factor_;
  std::map<std::int64_t, int> times_;
};

/// value <- base factor(t)
class FunctionRule final : public ScheduleRule {
 public:
  explicit FunctionRule(schedules::Function kind) : kind_(std::move(kind)) {}

  double next(double base, double, std::int64_t step) const override {
    return base * kind_.factor(step);
  }

 private:
  schedules::Function kind_;
};

/// value <- value factor(t)
class ProductRule final : public ScheduleRule {
 public:
  explicit ProductRule(schedules::Product kind) : kind_(std::move(kind)) {}

  double next(double, double current, std::int64_t step) const override {
    return step == 0 ? current : current * kind_.factor(step);
  }
  double restart(double, double current) const override { return current * kind_.factor(0); }

 private:
  schedules::Product kind_;
};

void require_function(bool is_set, const char* kind) {
  if (!is_set)
    throw std::invalid_argument(std::string("schedules::") + kind + ": factor: is empty");
}

}  // namespace

Schedule::Schedule(const schedules::Constant& kind) {
  const Checks checks("schedules::Constant");
  checks.normal("factor", kind.factor);
  checks.at_least_one("steps", kind.steps);
  rule_ = std::make_shared<ConstantRule>(kind);
}

Schedule::Schedule(const schedules::Linear& kind) {
  const Checks checks("schedules::Linear");
  checks.normal("start_factor", kind.start_factor);
  checks.at_least_zero("end_factor", kind.end_factor);
  checks.at_least_one("steps", kind.steps);
  rule_ = std::make_shared<LinearRule>(kind);
}

Schedule::Schedule(const schedules::Polynomial& kind) {
  const Checks checks("schedules::Polynomial");
  checks.at_least_one("steps", kind.steps);
  checks.positive("power", kind.power);
  rule_ = std::make_shared<PolynomialRule>(kind);
}

Schedule::Schedule(const schedules::InverseSquareRoot& kind) {
  Checks("schedules::InverseSquareRoot").at_least_one("steps", kind.steps);
  rule_ = std::make_shared<InverseSquareRootRule>(kind);
}

Schedule::Schedule(const schedules::Exponential& kind) {
  Checks("schedules::Exponential").positive("factor", kind.factor);
  rule_ = std::make_shared<StepRule>(schedules::Step{.every = 1, .factor = kind.factor});
}

Schedule::Schedule(const schedules::Step& kind) {
  const Checks checks("schedules::Step");
  checks.at_least_one("every", kind.every);
  checks.positive("factor", kind.factor);
  rule_ = std::make_shared<StepRule>(kind);
}

Schedule::Schedule(const schedules::Milestones& kind) {
  const Checks checks("schedules::Milestones");
  for (const std::int64_t step : kind.steps) checks.require(step >= 0, "steps", ">= 0", step);
  checks.positive("factor", kind.factor);
  rule_ = std::make_shared<MilestonesRule>(kind);
}

Schedule::Schedule(schedules::Function kind) {
  require_function(static_cast<bool>(kind.factor), "Function");
  rule_ = std::make_shared<FunctionRule>(std::move(kind));
}

Schedule::Schedule(schedules::Product kind) {
  require_function(static_cast<bool>(kind.factor), "Product");
  rule_ = std::make_shared<ProductRule>(std::move(kind));
}

}  // namespace shampoo
