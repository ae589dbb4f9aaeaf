// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include "launched_job.h"

namespace shampoo::launcher::test {
namespace {

using Words = std::vector<std::string>;

const Words two_workers{"--nproc-per-node", "2", "--shutdown-timeout", "1"};

TEST(LaunchSignals, StopsAllAndExitsWithOneForEachHandledSignal) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    LaunchedJob job(two_workers, {"child", "print", "forever"});
    ASSERT_TRUE(job.prints("rank 0") && job.prints("rank 1"));

    job.send(signal);

    EXPECT_EQ(job.wait(), 1) << job.output();
    EXPECT_TRUE(job.processes().empty()) << "signal " << signal;
  }
}

TEST(LaunchSignals, ForwardsTheSignalAsItIs) {
  LaunchedJob job({"--shutdown-timeout", "60", "--signals-to-handle", "SIGUSR1"},
                  {"note=10", "print", "sleep=20000"});
  ASSERT_TRUE(job.prints("rank 0"));

  job.send(SIGUSR1);

  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.count(std::string("S") + static_cast<char>('A' + SIGUSR1)), 1) << job.output();
}

TEST(LaunchSignals, ASecondSignalDoesNotWaitForTheShutdownTimeout) {
  LaunchedJob job({"--shutdown-timeout", "600"}, {"ignore=15", "print", "forever"});
  ASSERT_TRUE(job.prints("rank 0"));

  job.send(SIGTERM);
  ASSERT_TRUE(job.prints("SIGTERM"));
  EXPECT_TRUE(comes_true([&] {  // those of the first half second are the same signal
    job.send(SIGTERM);
    return job.processes().empty();
  }));

  EXPECT_EQ(job.wait(), 1);
}

TEST(LaunchSignals, ASignalSentTwiceAtOnceIsOneSignal) {
  LaunchedJob job({"--shutdown-timeout", "60"},
                  {"note=15", "print", "sleep=60000", "sleep=300", "print"});
  ASSERT_TRUE(job.prints("rank 0"));

  job.send(SIGTERM);
  ASSERT_TRUE(job.prints("SIGTERM"));
  job.send(SIGTERM);

  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.count("rank 0"), 2) << "the worker got time to end\n" << job.output();
}

TEST(LaunchSignals, EndsAWorkerWhoseFirstThreadHasEnded) {
  LaunchedJob job({"--shutdown-timeout", "60"}, {"print", "leaderless"});
  ASSERT_TRUE(job.prints("rank 0"));

  job.send(SIGTERM);

  EXPECT_EQ(job.wait(), 1);
  EXPECT_TRUE(job.processes().empty());
}

TEST(LaunchSignals, SparesTheChildrenThatItsProcessHadBefore) {
  const std::string launch = std::string(SHAMPOORUN) + " --no-python --log-dir /dev/null ";
  LaunchedJob job(Words{"/bin/sh", "-c", "sleep 600 & exec " + launch + "true"});

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.processes().size(), 1U);
}

TEST(LaunchSignals, WorkersDieWhenItIsKilled) {
  for (const int signal : {SIGKILL, SIGUSR1}) {
    LaunchedJob job(two_workers, {"ignore=15", "print", "forever"});
    ASSERT_TRUE(job.prints("rank 0") && job.prints("rank 1"));

    job.send(signal);

    EXPECT_EQ(job.wait(), 128 + signal);
    EXPECT_TRUE(job.leaves_nothing()) << "signal " << signal;
  }
}

}  // namespace
}  // namespace shampoo::launcher::test
