// SPDX-License-Identifier: Apache-2.0
#include "shampoo/schedules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "shampoo/schedules/schedule_rule.h"
#include "shampoo/validation/checks.h"

namespace shampoo {

namespace {

class BaseRule final : public ScheduleRule {
  double next(double, double current, std::int64_t) const override { return current; }
};

class SequenceRule final : public ScheduleRule {
 public:
  explicit SequenceRule(schedules::Sequence kind) : kind_(std::move(kind)) {}

  double next(double base, double current, std::int64_t step) const override {
    const auto begin = std::ranges::upper_bound(kind_.begins, step);
    const auto index = static_cast<std::size_t>(begin - kind_.begins.begin());
    const ScheduleRule& rule = of(kind_.schedules[index]);
    if (index == 0) return rule.next(base, current, step);
    const std::int64_t own = step - kind_.begins[index - 1];
    return own == 0 ? rule.restart(base, current) : rule.next(base, current, own);
  }
  double restart(double base, double current) const override {
    return of(kind_.schedules.front()).restart(base, current);
  }

 private:
  schedules::Sequence kind_;
};

class ChainRule final : public ScheduleRule {
 public:
  explicit ChainRule(schedules::Chain kind) : kind_(std::move(kind)) {}

  double next(double base, double current, std::int64_t step) const override {
    for (const Schedule& schedule : kind_.schedules)
      current = of(schedule).next(base, current, step);
    return current;
  }

 private:
  schedules::Chain kind_;
};

void require_schedules(const std::vector<Schedule>& schedules, const Checks& checks) {
  checks.require(!schedules.empty(), "schedules", "at least one", schedules.size());
}

}  // namespace

Schedule::Schedule() : rule_(std::make_shared<BaseRule>()) {}

Schedule::Schedule(const schedules::Sequence& kind) {
  const Checks checks("schedules::Sequence");
  require_schedules(kind.schedules, checks);
  checks.require(kind.begins.size() + 1 == kind.schedules.size(), "the number of begins",
                 "one less than that of schedules", kind.begins.size());
  std::int64_t before = 0;
  for (const std::int64_t begin : kind.begins) {
    checks.require(begin > before, "begins", ">= 1 and ascending", begin);
    before = begin;
  }
  rule_ = std::make_shared<SequenceRule>(kind);
}

Schedule::Schedule(const schedules::Chain& kind) {
  require_schedules(kind.schedules, Checks("schedules::Chain"));
  rule_ = std::make_shared<ChainRule>(kind);
}

Schedule::Schedule(const schedules::WarmUpStableDecay& kind) {
  const Checks checks("schedules::WarmUpStableDecay");
  checks.require(kind.warm_up >= 0, "warm_up", ">= 0", kind.warm_up);
  checks.require(kind.stable >= 0, "stable", ">= 0", kind.stable);
  checks.at_least_one("decay", kind.decay);
  checks.positive("start_factor", kind.start_factor);
  checks.at_least_zero("end_factor", kind.end_factor);
  constexpr std::int64_t longest = std::numeric_limits<std::int64_t>::max();
  schedules::Sequence parts;
  const auto append = [&](const Schedule& schedule, std::int64_t steps) {
    if (steps == 0) return;
    parts.schedules.push_back(schedule);
    const std::int64_t begin = parts.begins.empty() ? 0 : parts.begins.back();
    parts.begins.push_back(begin + std::min(steps, longest - begin));
  };
  append(schedules::Linear{kind.start_factor, 1, std::max<std::int64_t>(kind.warm_up, 1)},
         kind.warm_up);
  append(Schedule(), kind.stable);
  append(schedules::Linear{1, kind.end_factor, kind.decay}, kind.decay);
  parts.begins.pop_back();
  *this = Schedule(parts);
}

double Schedule::value(double base, std::int64_t step) const {
  Checks("schedules::Schedule").require(step >= 0, "step", ">= 0", step);
  return ScheduleCursor(*this, base).at(step);
}

std::vector<double> Schedule::values(double base, std::int64_t steps) const {
  Checks("schedules::Schedule").require(steps >= 0, "steps", ">= 0", steps);
  std::vector<double> values;
  ScheduleCursor cursor(*this, base);
  for (std::int64_t step = 0; step < steps; ++step) values.push_back(cursor.at(step));
  return values;
}

}  // namespace shampoo
