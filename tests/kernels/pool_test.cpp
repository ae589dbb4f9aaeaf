// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <stdexcept>
#include <vector>

#include "kernels/backend.h"
#include "tests/kernels/numbers.h"
#include "tests/kernels/table.h"
#include "tests/support/allocations.h"
#include "tests/support/cpu_kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace shampoo::test {
namespace {

using kernels::Pool;

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

#if defined(__x86_64__)
constexpr unsigned flush_bits = 0x8040;

TEST(FloatingMode, CountsDenormalsAsZeroInTasksAndComesBack) {
  const unsigned before = _mm_getcsr();
  Pool pool(3);
  for (const std::int64_t grain : {1, 100}) {
    std::atomic<int> wrong = 0;
    pool.run(100, grain, [&](std::int64_t, int) {
      if ((_mm_getcsr() & flush_bits) != flush_bits) ++wrong;
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(_mm_getcsr(), before);
  }
  EXPECT_THROW(pool.run(100, 1, [](std::int64_t, int) { throw std::logic_error("planted"); }),
               std::logic_error);
  EXPECT_EQ(_mm_getcsr(), before);
}

TEST(FloatingMode, OfTheCallerIsKeptByABackend) {
  const std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 2});
  Table t({{.shape = {300, 300},
            .mode = kernels::Mode::unpreconditioned,
            .coefficients = {.step = 0x1p-10}}},
          Type::float32);
  write(t.direction.data(), Type::float32, 0x1p-120);
  for (const unsigned mode : {_mm_getcsr() & ~flush_bits, _mm_getcsr() | flush_bits}) {
    _mm_setcsr(mode);
    backend->update(t.phase(), {.direction = t.direction.data(), .segment = t.segment.data()});
    EXPECT_EQ(_mm_getcsr() & ~0x3fu, mode & ~0x3fu);
    // 2^-130 is denormal.
    EXPECT_EQ(read(t.segment.data(), Type::float32), 0);
  }
  _mm_setcsr(_mm_getcsr() & ~flush_bits);
}
#endif

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

}  // namespace
}  // namespace shampoo::test
