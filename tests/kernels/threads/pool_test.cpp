// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/pool.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/threads/workers.h"
#include "tests/support/allocations.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

using kernels::Pool;
using kernels::Schedule;
using kernels::Scratch;
using kernels::TasksAhead;
using kernels::Workers;

TEST(PoolOfThreads, RunsEveryTaskOnce) {
  for (const int threads : {1, 2, 3, 7}) {
    Pool pool(threads);
    for (const std::int64_t tasks : {0, 1, 2, 5, 1000})
      for (const std::int64_t grain : {1, 3, 2000}) {
        std::vector<std::atomic<int>> runs(static_cast<std::size_t>(tasks));
        std::atomic<bool> is_known = true;
        pool.run(tasks, grain, [&](std::int64_t task, int worker) {
          ++runs[static_cast<std::size_t>(task)];
          if (worker < 0 || worker >= threads) is_known = false;
        });
        for (const auto& count : runs) ASSERT_EQ(count, 1);
        ASSERT_TRUE(is_known);
      }
  }
}

TEST(PoolOfThreads, GivesAWorkerOneTaskAtATime) {
  Pool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> collisions = 0;
  for (int run = 0; run < 200; ++run)
    pool.run(16, 1, [&](std::int64_t, int worker) {
      if (inside[static_cast<std::size_t>(worker)].fetch_add(1) != 0) ++collisions;
      --inside[static_cast<std::size_t>(worker)];
    });

  EXPECT_EQ(collisions, 0);
}

TEST(PoolOfThreads, RethrowsAndGoesOn) {
  Pool pool(3);
  for (int run = 0; run < 100; ++run) {
    EXPECT_THROW(pool.run(50, 1,
                          [&](std::int64_t task, int) {
                            if (task == run % 50) throw std::runtime_error("planted");
                          }),
                 std::runtime_error);
    std::atomic<int> sum = 0;
    pool.run(50, 1, [&](std::int64_t, int) { ++sum; });
    ASSERT_EQ(sum, 50);
  }
}

TEST(PoolOfThreads, SeesWhatTasksWrote) {
  Pool pool(2);
  std::vector<std::int64_t> numbers(1000);
  for (int run = 0; run < 500; ++run) {
    pool.run(1000, 1,
             [&](std::int64_t task, int) { numbers[static_cast<std::size_t>(task)] += task; });
  }
  for (std::int64_t i = 0; i < 1000; ++i) ASSERT_EQ(numbers[static_cast<std::size_t>(i)], 500 * i);
}

TEST(PoolOfThreads, WakesWorkersThatSleep) {
  Pool pool(2);
  std::atomic<int> sum = 0;
  for (int run = 0; run < 5; ++run) {
    // Longer than workers stay awake.
    for (std::atomic<int> i = 0; i < 3000000; i.store(i.load() + 1)) {
    }
    pool.run(100, 1, [&](std::int64_t, int) { ++sum; });
  }
  EXPECT_EQ(sum, 500);
}

TEST(PoolOfThreads, IsDestroyedInAForkedChildThatHasNoneOfThem) {
  std::optional<Pool> pool(std::in_place, 4);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    std::atomic<int> sum = 0;
    pool->run(100, 1, [&](std::int64_t, int) { ++sum; });
    pool.reset();
    _exit(sum == 100 ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CpuBackend, RefusesAnImpossibleNumberOfThreads) {
  EXPECT_THROW(cpu_backend({.threads = -1}), std::invalid_argument);
  EXPECT_THROW(cpu_backend({.threads = 1025}), std::invalid_argument);
}

TEST(CpuBackend, HandsOutZeroedMemoryOnCacheLines) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100001}}) {
    auto* const memory = static_cast<unsigned char*>(backend->allocate(bytes));
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0u);
    for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], 0);
    backend->release(memory);
  }
  // A sanitizer ends the process instead.
  if (AllocationCounter::sees_everything()) {
    EXPECT_THROW(backend->allocate(std::size_t{1} << 60), std::bad_alloc);
  }
}

constexpr std::size_t none = 99;

using Groups = std::vector<std::size_t>;

/// Groups of the tasks that one thread runs, of their companions and of the tasks after them.
struct Order {
  Groups groups, companions, next;
};

Order order_of(Workers& workers, const std::vector<std::int64_t>& members,
               const std::vector<double>& costs) {
  workers.schedule.clear();
  for (std::size_t g = 0; g < members.size(); ++g) workers.schedule.add(g, members[g], costs[g]);
  Order order;
  workers.run_schedule_ahead([&](const Schedule::Task& task, const TasksAhead& ahead, Scratch&) {
    order.groups.push_back(task.group);
    order.companions.push_back(ahead.companion ? ahead.companion->group : none);
    order.next.push_back(ahead.next ? ahead.next->group : none);
  });
  return order;
}

TEST(Workers, RunCheapTasksBehindCostlyOnes) {
  Workers workers(1);
  const Order order = order_of(workers, {5, 4, 2}, {1, 1000, 64});
  EXPECT_EQ(order.groups, (Groups{1, 0, 1, 0, 1, 0, 1, 0, 2, 0, 2}));
  EXPECT_EQ(order.companions, (Groups{0, none, 0, none, 0, none, 0, none, 0, none, none}));
  EXPECT_EQ(order.next, (Groups{1, none, 1, none, 1, none, 2, none, 2, none, none}));

  EXPECT_EQ(order_of(workers, {}, {}).groups, Groups{});
  EXPECT_EQ(order_of(workers, {3, 2}, {1, 100}).companions, Groups(5, none)) << "few tasks";
}

TEST(Workers, PairNoTasksOfLikeCost) {
  Workers workers(1);
  const Order order = order_of(workers, {3, 0, 4}, {1, 7, 63});
  EXPECT_EQ(order.groups, (Groups{2, 2, 2, 2, 0, 0, 0}));
  EXPECT_EQ(order.companions, Groups(7, none));
  EXPECT_EQ(order.next, (Groups{2, 2, 2, 0, 0, 0, none}));
}

TEST(Workers, RunACompanionOnTheThreadOfItsTask) {
  Workers workers(3);
  workers.schedule.add(0, 30, 1);
  workers.schedule.add(1, 20, 1e6);
  std::mutex mutex;
  std::map<std::thread::id, std::optional<Schedule::Task>> companions;
  std::map<std::pair<std::size_t, std::int64_t>, int> runs;
  int behind = 0;
  workers.run_schedule_ahead([&](const Schedule::Task& task, const TasksAhead& ahead, Scratch&) {
    const std::lock_guard lock(mutex);
    ++runs[{task.group, task.member}];
    std::optional<Schedule::Task>& expected = companions[std::this_thread::get_id()];
    if (expected) {
      ++behind;
      EXPECT_EQ(task.group, expected->group);
      EXPECT_EQ(task.member, expected->member);
      EXPECT_FALSE(ahead.companion || ahead.next);
    }
    expected = ahead.companion;
  });
  EXPECT_EQ(behind, 20);
  EXPECT_EQ(runs.size(), 50U);
  for (const auto& [task, count] : runs) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace shampoo::test
