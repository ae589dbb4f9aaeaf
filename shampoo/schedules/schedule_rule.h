// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "shampoo/schedules.h"

namespace shampoo {

/// Arithmetic of a kind of schedule, in the order of operations of torch's schedulers: with the
/// same cos and pow their values have the same bits.
class ScheduleRule {
 public:
  virtual ~ScheduleRule() = default;

  /// Value in a step, with that of the step before in `current`, or the base before step 0.
  virtual double next(double base, double current, std::int64_t step) const = 0;
  /// Value in step 0 where another schedule has left `current`.
  virtual double restart(double base, double /*current*/) const { return next(base, base, 0); }

  static const ScheduleRule& of(const Schedule& schedule) { return *schedule.rule_; }
};

/// Goes through the steps of a schedule.
class ScheduleCursor {
 public:
  ScheduleCursor(Schedule schedule, double base) : schedule_(std::move(schedule)), base_(base) {}

  bool follows(const Schedule& schedule, double base) const {
    return schedule_ == schedule && base_ == base;
  }

  /// Value in a step. Goes through all steps from that of the last call on, or from 0 where this
  /// one is earlier. A step that is repeated, as after an error, is computed again.
  double at(std::int64_t step) {
    const ScheduleRule& rule = ScheduleRule::of(schedule_);
    if (next_ > 0 && step == next_ - 1) return value_ = rule.next(base_, before_, step);
    if (step < next_) next_ = 0;
    if (next_ == 0) value_ = base_;
    for (; next_ <= step; ++next_) {
      const double value = rule.next(base_, value_, next_);
      before_ = std::exchange(value_, value);
    }
    return value_;
  }

 private:
  Schedule schedule_;
  double base_;
  std::int64_t next_ = 0;  ///< step
  double value_ = 0;       ///< of the step next_ - 1
  double before_ = 0;      ///< of the step next_ - 2, or the base
};

}  // namespace shampoo
