// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cpu/threads/pool.h"
#include "kernels/cpu/threads/schedule.h"
#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// A thread pool with scratch memory for every thread, and the schedule of its tasks.
class Workers {
 public:
  explicit Workers(int threads) : pool(threads), scratch_(static_cast<std::size_t>(pool.size())) {
    schedule.reserve(usual_groups);
  }

  void reserve(std::size_t bytes_each, std::size_t groups) {
    for (Scratch& scratch : scratch_) scratch.reserve(bytes_each);
    schedule.reserve(groups);
  }

  /// Total size of all scratch memories.
  std::int64_t scratch_bytes() const {
    std::size_t all = 0;
    for (const Scratch& scratch : scratch_) all += scratch.bytes();
    return static_cast<std::int64_t>(all);
  }

  /// body(group, member, scratch) for every task of the schedule.
  template <typename Body>
  void run_schedule(Body&& body) {
    run_tasks([&](std::int64_t number, std::int64_t, Scratch& scratch) {
      const Schedule::Task task = schedule.at(number);
      body(task.group, task.member, scratch);
    });
  }

  /// body(task, next, scratch). `next` is what this thread may do then, or null: other threads take
  /// as many tasks meanwhile if all are equal.
  template <typename Body>
  void run_schedule_ahead(Body&& body) {
    run_tasks([&](std::int64_t number, std::int64_t then, Scratch& scratch) {
      if (then >= schedule.tasks()) return body(schedule.at(number), nullptr, scratch);
      const Schedule::Task next = schedule.at(then);
      body(schedule.at(number), &next, scratch);
    });
  }

  Pool pool;
  Schedule schedule;

 private:
  static constexpr std::size_t usual_groups = 1024;
  /// Floating-point operations that one thread does in the time that it takes to share them.
  static constexpr double serial_cost = 5e5;

  /// body(number of a task, number of one that the thread may do then, scratch)
  template <typename Body>
  void run_tasks(Body&& body) {
    schedule.sort();
    const bool small = schedule.cost() < serial_cost;
    const std::int64_t from_task_to_task = small ? 1 : pool.size();
    pool.run(schedule.tasks(), small ? schedule.tasks() : 1, [&](std::int64_t task, int worker) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
      scratch.clear();
      body(task, task + from_task_to_task, scratch);
    });
  }

  std::vector<Scratch> scratch_;
};

}  // namespace shampoo::kernels
