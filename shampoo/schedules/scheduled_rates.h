// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shampoo/group.h"
#include "shampoo/schedules/schedule_rule.h"

namespace shampoo {

/// Sets the rates of groups that have schedules.
class ScheduledRates {
 public:
  /// Scheduled rates <- values of this step, counted from 0. Throws std::invalid_argument that
  /// names group and rate, with no rate changed: for a name that no rate has, a rate that the
  /// recipe does not read or without a value to start from, and one that the caller has set since,
  /// unless its base or schedule is another now.
  void set(std::span<const std::unique_ptr<Group>> groups, std::int64_t step);

  /// Rates may have been replaced since set().
  void forget_values();

 private:
  struct Entry {
    std::string rate;
    ScheduleCursor cursor;
    double value = 0;                 ///< of this step
    std::optional<double> last = {};  ///< as set() left it
  };

  void update_entries(std::span<const std::unique_ptr<Group>> groups, std::size_t index);
  ScheduleCursor cursor_of(const Schedule& schedule, double base) const;

  std::vector<std::vector<Entry>> groups_;  ///< in the order of Group::schedules
};

/// Throws std::invalid_argument that names group and rate, for schedules that have no rate, or one
/// that the recipe does not read.
void check_schedules(const Group& group);

}  // namespace shampoo
