// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>

#include "launched_job.h"

namespace shampoo::launcher::test {
namespace {

TEST(LaunchOneNode, TellsEachWorkerItsPlaceAndExitsWithZero) {
  LaunchedJob job({"--nproc-per-node", "2"}, {"print"});

  EXPECT_EQ(job.wait(), 0) << job.output();
  for (const char* local : {"0", "1"})
    EXPECT_EQ(job.count("rank " + std::string(local) + "/2 local " + local +
                        "/2 group 0/1 attempt 0 store True"),
              1)
        << job.output();
}

TEST(LaunchOneNode, ExitsWithOneOrTheWorkersCodeWhenOneFails) {
  EXPECT_EQ(LaunchedJob({}, {"exit=17"}).wait(), 1);
  EXPECT_EQ(LaunchedJob({}, {"raise=11"}).wait(), 1);
  EXPECT_EQ(LaunchedJob({"--exit-code", "worker"}, {"exit=17"}).wait(), 17);
  EXPECT_EQ(LaunchedJob({"--exit-code", "worker"}, {"raise=11"}).wait(), 128 + SIGSEGV);
}

TEST(LaunchOneNode, LetsOthersGoOnWhenOneWorkerEndsEarlyWithZero) {
  LaunchedJob job({"--nproc-per-node", "2"}, {"rank=0", "exit=0", "sleep=500", "print"});

  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.count("rank 1/2"), 1) << job.output();
}

TEST(LaunchOneNode, RestartsAllWorkersOnAFreshStore) {
  LaunchedJob job({"--nproc-per-node", "2", "--max-restarts", "3"},
                  {"print", "store", "attempt=0", "rank=1", "exit=3", "attempt=1", "rank=0",
                   "raise=9", "sleep=100"});

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.count("attempt 2 "), 2) << job.output();
  EXPECT_EQ(job.count("attempt 3 "), 0) << job.output();
  EXPECT_EQ(job.count("counter 3"), 0) << "a key of an earlier attempt\n" << job.output();
  EXPECT_GE(job.count("counter 1"), 1) << job.output();
}

TEST(LaunchOneNode, KeepsAGivenPortWithAFreshStoreInEachAttempt) {
  LaunchedJob job({"--master-port", free_port(), "--max-restarts", "2"},
                  {"store", "attempt=0", "exit=3", "attempt=1", "exit=3"});

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.count("counter 1"), 3) << job.output();
}

TEST(LaunchOneNode, FailsWhenRestartsAreUsedUp) {
  LaunchedJob job({"--max-restarts", "1"}, {"print", "exit=3"});

  EXPECT_EQ(job.wait(), 1);
  EXPECT_EQ(job.count("rank 0/1"), 2) << job.output();
}

TEST(LaunchOneNode, StopsSiblingsThatIgnoreSigtermOrAreStopped) {
  LaunchedJob job({"--nproc-per-node", "3", "--shutdown-timeout", "1"},
                  {"rank=1", "ignore=15", "rank=2", "raise=19", "rank=0", "sleep=300", "rank=0",
                   "exit=4", "forever"});

  EXPECT_EQ(job.wait(), 1) << job.output();
  EXPECT_TRUE(job.leaves_nothing());
  EXPECT_EQ(job.count("exitcode  : -9"), 1) << job.output();
  EXPECT_EQ(job.count("exitcode  : -15"), 1) << "the stopped one\n" << job.output();
}

TEST(LaunchOneNode, EndsTheProcessGroupsOfFailedAndOfSuccessfulWorkers) {
  for (const char* end : {"exit=5", "exit=0"}) {
    LaunchedJob job({"--nproc-per-node", "2", "--shutdown-timeout", "0.3"},
                    {"child", "sleep=200", end});

    EXPECT_EQ(job.wait(), std::string(end) == "exit=0" ? 0 : 1) << job.output();
    EXPECT_TRUE(job.processes().empty());
  }
}

TEST(LaunchOneNode, GivesWorkersTheLimitOfDescriptorsThatItGot) {
  const std::string launch = std::string(SHAMPOORUN) + " --no-python --log-dir /dev/null ";
  LaunchedJob job({"/bin/sh", "-c", "ulimit -Sn 200; exec " + launch + "sh -c 'ulimit -Sn'"});

  EXPECT_EQ(job.wait(), 0);
  EXPECT_EQ(job.output(), "200\n");
}

TEST(LaunchOneNode, SaysWhichProgramIsMissing) {
  LaunchedJob job({"--max-restarts", "3"}, {}, "/no/such/program");

  EXPECT_EQ(job.wait(), 1);
  EXPECT_GE(job.count("/no/such/program"), 1) << job.output();
  EXPECT_EQ(job.count("next attempt"), 0) << job.output();
}

TEST(LaunchOneNode, FindsProgramsInPathAndSuggestsOneThatIsHere) {
  const std::string launch = std::string("exec ") + SHAMPOORUN + " --log-dir /dev/null ";
  LaunchedJob found({"/bin/sh", "-c", launch + "echo found it"});
  EXPECT_EQ(found.wait(), 0);
  EXPECT_EQ(found.count("found it"), 1) << found.output();

  LaunchedJob here(
      {"/bin/sh", "-c",
       std::string("cd $(dirname ") + LAUNCHED_WORKER + ") && " + launch + "launched_worker"});
  EXPECT_EQ(here.wait(), 1);
  EXPECT_GE(here.count("did you mean ./launched_worker?"), 1) << here.output();
}

TEST(LaunchOneNode, ReportsWhatAWorkerWroteIntoItsErrorFile) {
  LaunchedJob job({"--nproc-per-node", "2"}, {"rank=1", "error=out of cheese", "rank=1", "exit=2"});

  EXPECT_EQ(job.wait(), 1);
  EXPECT_GE(job.count("out of cheese"), 1) << job.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
