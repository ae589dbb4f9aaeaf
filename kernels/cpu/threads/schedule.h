// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace shampoo::kernels {

/// One task for every member of some groups of equal members, the costliest group first. The last
/// tasks can be companions of the first ones: they cost little beside them, and run right behind.
class Schedule {
 public:
  struct Task {
    std::size_t group = 0;
    std::int64_t member = 0;
  };

  void reserve(std::size_t groups) { entries_.reserve(groups); }
  void clear() {
    entries_.clear();
    tasks_ = companions_ = 0;
    cost_ = 0;
  }

  /// `cost` is that of one member, in floating-point operations.
  void add(std::size_t group, std::int64_t members, double cost);
  /// To be called after the last group. There are companions if `threads` have several tasks each.
  void sort(int threads);

  std::int64_t tasks() const { return tasks_; }
  double cost() const { return cost_; }
  Task at(std::int64_t task) const {
    const Entry& entry = entry_of(task);
    return {entry.group, task - entry.first_task};
  }

  /// The first tasks, which are nobody's companions.
  std::int64_t leading_tasks() const { return tasks_ - companions_; }
  std::optional<Task> companion_of(std::int64_t leading) const {
    if (leading >= companions_) return std::nullopt;
    return at(tasks_ - 1 - leading);
  }

 private:
  struct Entry {
    std::size_t group;
    std::int64_t members, first_task;
    double cost;
  };
  const Entry& entry_of(std::int64_t task) const;

  std::vector<Entry> entries_;
  std::int64_t tasks_ = 0, companions_ = 0;
  double cost_ = 0;
};

}  // namespace shampoo::kernels
