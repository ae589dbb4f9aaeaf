// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "launched_job.h"

namespace shampoo::launcher::test {
namespace {

using Words = std::vector<std::string>;

Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Words fixed_node(const std::string& rank, const std::string& port) {
  return {"--nnodes",      "2",          "--node-rank",        rank, "--master-addr",  "127.0.0.1",
          "--master-port", port,         "--nproc-per-node",   "2",  "--max-restarts", "1",
          "--rdzv-conf",   "timeout=20", "--shutdown-timeout", "2"};
}

Words node(const std::string& nodes, const std::string& port, const std::string& restarts) {
  return {"--nnodes",
          nodes,
          "--rdzv-backend",
          "c10d",
          "--rdzv-endpoint",
          "localhost:" + port,
          "--rdzv-id",
          "job",
          "--rdzv-conf",
          "join_timeout=20,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2",
          "--shutdown-timeout",
          "2",
          "--max-restarts",
          restarts};
}

/// Decides who serves the store; the times as in node().
Words host(const std::string& is_host) {
  return {
      "--rdzv-conf",
      "is_host=" + is_host +
          ",join_timeout=20,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2"};
}

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

TEST(LaunchNodes, GoesOnWithoutANodeThatIsKilledOrSilentWhereItMay) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    const std::string port = free_port();
    LaunchedJob other(node("1:2", port, "1") + host("1"), {"print", "attempt=0", "forever"});
    LaunchedJob killed(node("1:2", port, "1") + host("0"), {"print", "forever"});
    ASSERT_TRUE(other.prints("rank 0/2") && killed.prints("rank 1/2"));

    for (const pid_t half : children_of(killed.pid())) kill(half, signal);
    killed.send(signal);

    EXPECT_EQ(other.wait(), 0) << other.output();
    EXPECT_EQ(other.count("rank 0/1 local 0/1 group 0/1 attempt 1 restarts 1"), 1)
        << other.output();
    if (signal == SIGSTOP) {
      for (const pid_t half : children_of(killed.pid())) kill(half, SIGCONT);
      killed.send(SIGCONT);
      EXPECT_EQ(killed.wait(), 1) << killed.output();
    }
    EXPECT_TRUE(killed.leaves_nothing());
  }
}

TEST(LaunchNodes, FailsWithTheNameOfANodeThatIsNeededButGone) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port), {"print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  second.send(SIGKILL);

  EXPECT_EQ(first.wait(), 1);
  EXPECT_GE(first.count("the job ends: node 1 on "), 1) << first.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchNodes, EndsWithAnErrorWhenTheHostOfTheJobDies) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port), {"daemon", "print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  for (const pid_t half : children_of(first.pid())) kill(half, SIGKILL);

  EXPECT_EQ(second.wait(), 1);
  EXPECT_EQ(second.count("127.0.0.1:" + port + " is gone"), 1) << second.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchNodes, TheWaitForOtherNodesAtTheEndCanBeInterrupted) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print"});
  LaunchedJob second(fixed_node("1", port), {"print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  first.send(SIGTERM);

  EXPECT_EQ(first.wait(), 1) << first.output();
  EXPECT_EQ(second.wait(), 1) << second.output();
}

TEST(LaunchNodes, TheWaitForOtherNodesAtTheStartHasALimitAndCanBeInterrupted) {
  LaunchedJob limited(fixed_node("0", free_port()) + Words{"--rdzv-conf", "timeout=1"}, {});
  LaunchedJob interrupted(fixed_node("1", free_port()), {});
  interrupted.send(SIGINT);

  EXPECT_EQ(limited.wait(), 1);
  EXPECT_EQ(limited.count("only 1 of 2 nodes joined"), 1) << limited.output();
  EXPECT_NE(interrupted.wait(), -1);
}

}  // namespace
}  // namespace shampoo::launcher::test
