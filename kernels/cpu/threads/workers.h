// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/cpu/threads/pool.h"
#include "kernels/cpu/threads/schedule.h"
#include "kernels/cpu/threads/scratch.h"

namespace shampoo::kernels {

/// What a thread does after a task, as far as it is known.
struct TasksAhead {
  std::optional<Schedule::Task> companion, next;
};

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
    schedule.sort(pool.size());
    run_tasks(schedule.tasks(), [&](std::int64_t number, std::int64_t, Scratch& scratch) {
      const Schedule::Task task = schedule.at(number);
      body(task.group, task.member, scratch);
    });
  }

  /// body(task, tasks ahead, scratch). A task's products can fetch the memory of its companion,
  /// which has few of its own, and of the next task.
  template <typename Body>
  void run_schedule_ahead(Body&& body) {
    schedule.sort(pool.size());
    const std::int64_t tasks = schedule.leading_tasks();
    run_tasks(tasks, [&](std::int64_t number, std::int64_t then, Scratch& scratch) {
      TasksAhead tasks_ahead{schedule.companion_of(number), std::nullopt};
      if (then < tasks) tasks_ahead.next = schedule.at(then);
      body(schedule.at(number), tasks_ahead, scratch);
      if (!tasks_ahead.companion) return;
      scratch.clear();
      body(*tasks_ahead.companion, TasksAhead{}, scratch);
    });
  }

  Pool pool;
  Schedule schedule;

 private:
  static constexpr std::size_t usual_groups = 1024;
  /// Floating-point operations that one thread does in the time that it takes to share them.
  static constexpr double serial_cost = 5e5;

  /// body(number of a task, number of the thread's next one if all take equally long, scratch)
  template <typename Body>
  void run_tasks(std::int64_t tasks, Body&& body) {
    const bool small = schedule.cost() < serial_cost;
    const std::int64_t from_task_to_task = small ? 1 : pool.size();
    pool.run(tasks, small ? tasks : 1, [&](std::int64_t task, int worker) {
      Scratch& scratch = scratch_[static_cast<std::size_t>(worker)];
      scratch.clear();
      body(task, task + from_task_to_task, scratch);
    });
  }

  std::vector<Scratch> scratch_;
};

}  // namespace shampoo::kernels
