// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "grouping/number_text.h"
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

/// Throws std::invalid_argument unless `holds`.
template <typename Value>
void require_option(bool holds, std::string_view kind, std::string_view field,
                    std::string_view range, Value found) {
  if (holds) return;
  throw std::invalid_argument("schedules::" + std::string(kind) + ": " + std::string(field) +
                              " must be " + std::string(range) + ", got " +
                              grouping::exact_text(static_cast<double>(found)));
}

inline void require_steps(std::string_view kind, std::string_view field, std::int64_t steps) {
  require_option(steps >= 1, kind, field, ">= 1", steps);
}

inline void require_positive(std::string_view kind, std::string_view field, double value) {
  require_option(value > 0 && std::isfinite(value), kind, field, "in (0, inf)", value);
}

inline void require_at_least_zero(std::string_view kind, std::string_view field, double value) {
  require_option(value >= 0 && std::isfinite(value), kind, field, "in [0, inf)", value);
}

}  // namespace shampoo
