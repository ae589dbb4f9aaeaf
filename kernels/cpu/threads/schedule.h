// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace shampoo::kernels {

/// One task for every member of some groups of equal members, the costliest group first.
class Schedule {
 public:
  struct Task {
    std::size_t group = 0;
    std::int64_t member = 0;
  };

  void reserve(std::size_t groups) { entries_.reserve(groups); }
  void clear() {
    entries_.clear();
    tasks_ = 0;
    cost_ = 0;
  }

  /// `cost` is that of one member, in floating-point operations.
  void add(std::size_t group, std::int64_t members, double cost);
  /// To be called after the last group.
  void sort();

  std::int64_t tasks() const { return tasks_; }
  double cost() const { return cost_; }
  Task at(std::int64_t task) const;

 private:
  struct Entry {
    std::size_t group;
    std::int64_t members, first_task;
    double cost;
  };
  std::vector<Entry> entries_;
  std::int64_t tasks_ = 0;
  double cost_ = 0;
};

}  // namespace shampoo::kernels
