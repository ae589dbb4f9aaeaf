// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/threads/thread_count.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "kernels/backend.h"

namespace shampoo::test {
namespace {

using kernels::thread_count;

TEST(ThreadCount, IsThatOfOpenMp) {
  EXPECT_EQ(thread_count({.openmp = "3", .local_size = "2", .processors = 8}), 3);
  EXPECT_EQ(thread_count({.openmp = "5,2", .processors = 8}), 5);
  EXPECT_EQ(thread_count({.openmp = "100000", .processors = 8}), 1024);
}

TEST(ThreadCount, DividesTheProcessorsAmongTheRanksOfTheHost) {
  EXPECT_EQ(thread_count({.processors = 7}), 7);
  EXPECT_EQ(thread_count({.local_size = "1", .processors = 7}), 7);
  EXPECT_EQ(thread_count({.local_size = "3", .processors = 7}), 2);
  EXPECT_EQ(thread_count({.local_size = "8", .processors = 7}), 1);
}

TEST(ThreadCount, LeavesARankTheProcessorsThatItIsBoundTo) {
  EXPECT_EQ(thread_count({.local_size = "3", .processors = 7, .bound = true}), 7);
}

TEST(ThreadCount, PassesOverWhatIsNoNumber) {
  for (const char* text : {"", "many", "-2", "0", ","}) {
    EXPECT_EQ(thread_count({.openmp = text, .processors = 6}), 6) << text;
    EXPECT_EQ(thread_count({.local_size = text, .processors = 6}), 6) << text;
  }
}

TEST(ThreadCount, IsTheBackends) {
  unsetenv("OMP_NUM_THREADS");
  setenv("LOCAL_WORLD_SIZE", "1", 1);
  const int all = default_threads();
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  EXPECT_EQ(default_threads(), std::max(1, all / 2));
  setenv("OMP_NUM_THREADS", "3", 1);
  EXPECT_EQ(default_threads(), 3);
  const std::string text = cpu_backend()->description();
  EXPECT_NE(text.find("3 threads"), std::string::npos) << text;
}

TEST(ThreadCount, SeesWhetherALauncherBoundTheProcess) {
  EXPECT_FALSE(kernels::thread_sources().bound);
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  if (CPU_COUNT(&mine) < 2) GTEST_SKIP() << "one processor";
  int first = 0;
  while (!CPU_ISSET(first, &mine)) ++first;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof one, &one);
    const kernels::ThreadSources sources = kernels::thread_sources();
    _exit(sources.bound && sources.processors == 1 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace shampoo::test
