// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "launched_job.h"
#include "node_flags.h"

namespace shampoo::launcher::test {
namespace {

TEST(LaunchNodes, FixedNodesRestartTogetherWithTheSameAttempt) {
  const std::string port = free_port();
  const Words actions{"print", "store", "attempt=0", "rank=3", "exit=5", "attempt=0", "forever"};
  LaunchedJob second(fixed_node("1", port), actions);
  LaunchedJob first(fixed_node("0", port), actions);

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.count("rank 1/4 local 1/2 group 0/2 attempt 1 restarts 1"), 1) << first.output();
  EXPECT_EQ(second.count("rank 3/4 local 1/2 group 1/2 attempt 1 restarts 1"), 1)
      << second.output();
  EXPECT_EQ(first.count("counter 5") + second.count("counter 5"), 0) << "an old key";
}

TEST(LaunchNodes, RefusesASecondNodeOfTheSameRankAndOtherFlags) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"sleep=300"});
  LaunchedJob second(fixed_node("1", port) + Words{"--max-restarts", "2"}, {});

  EXPECT_EQ(second.wait(), 1);
  EXPECT_EQ(second.count("--max-restarts is 1 in this job, not 2"), 1) << second.output();

  LaunchedJob third(fixed_node("1", port), {"print", "forever"});
  ASSERT_TRUE(third.prints("rank 2"));
  LaunchedJob fourth(fixed_node("1", port), {});
  EXPECT_EQ(fourth.wait(), 1);
  EXPECT_EQ(fourth.count("--node-rank 1 is already that of node 1"), 1) << fourth.output();
}

TEST(LaunchNodes, RefusesANodeOfAnotherJobAndOneTooMany) {
  const std::string port = free_port();
  LaunchedJob first(node("1", port, "0") + Words{"--nnodes", "1:2"}, {"print", "forever"});
  ASSERT_TRUE(first.prints("rank 0/1"));
  LaunchedJob stranger(node("1:2", port, "0") + Words{"--rdzv-id", "other"}, {});
  EXPECT_EQ(stranger.wait(), 1);
  EXPECT_EQ(stranger.count("is 'job', not 'other'"), 1) << stranger.output();

  LaunchedJob second(node("1:2", port, "0"), {"print", "forever"});
  ASSERT_TRUE(second.prints("rank 1/2"));
  LaunchedJob third(node("1:2", port, "0"), {});
  EXPECT_EQ(third.wait(), 1);
  EXPECT_EQ(third.count("the job has all its 2 nodes"), 1) << third.output();
}

TEST(LaunchNodes, ALateNodeJoinsWithoutUsingUpARestart) {
  const std::string port = free_port();
  LaunchedJob first(node("1:2", port, "0"), {"print", "store", "attempt=0", "forever"});
  ASSERT_TRUE(first.prints("rank 0/1"));
  LaunchedJob second(node("1:2", port, "0"), {"print", "store"});

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.count("group 0/2 attempt 1 restarts 0"), 1) << first.output();
  EXPECT_EQ(second.count("group 1/2 attempt 1 restarts 0"), 1) << second.output();
}

TEST(LaunchNodes, TheWaitForOtherNodesAtTheEndCanBeInterrupted) {
  const std::string port = free_port();
  const Words patient{"--max-restarts", "0", "--shutdown-timeout", "600"};
  LaunchedJob first(fixed_node("0", port) + patient, {"print", "rank=0", "exit=3"});
  LaunchedJob second(fixed_node("1", port) + patient, {"ignore=15", "print", "forever"});
  ASSERT_TRUE(first.prints("Root Cause")) << first.output();

  first.send(SIGTERM);

  EXPECT_EQ(first.wait(), 1) << first.output();
}

TEST(LaunchNodes, TheWaitForOtherNodesAtTheStartHasALimitAndCanBeInterrupted) {
  const Listener listener;
  LaunchedJob limited(fixed_node("0", free_port()) + Words{"--rdzv-conf", "timeout=1"}, {});
  const Words waiting = fixed_node("1", listener.port()) + Words{"--rdzv-conf", "timeout=600"};
  LaunchedJob interrupted(waiting, {}), orphaned(waiting, {});
  ASSERT_TRUE(listener.is_found());
  for (const LaunchedJob* job : {&interrupted, &orphaned})  // signals are taken from then on
    ASSERT_TRUE(comes_true([&] { return !children_of(job->pid()).empty(); }));

  interrupted.send(SIGINT);
  orphaned.send(SIGKILL);

  EXPECT_EQ(interrupted.wait(), 1) << interrupted.output();
  EXPECT_TRUE(orphaned.leaves_nothing());
  EXPECT_EQ(limited.wait(), 1);
  EXPECT_EQ(limited.count("only 1 of 2 nodes joined"), 1) << limited.output();
}

TEST(LaunchNodes, ServesThePortOfTheJobOnceItBecomesFree) {
  Listener listener;
  LaunchedJob job(node("1:2", listener.port(), "0"), {"print"});
  ASSERT_TRUE(listener.is_found());

  listener.close();

  EXPECT_EQ(job.wait(), 0) << job.output();
  EXPECT_EQ(job.count("rank 0/1"), 1) << job.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
