// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <optional>
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
  EXPECT_EQ(first.count("rank 1/4 local 1/2 group 0/2 attempt 1"), 1) << first.output();
  EXPECT_EQ(second.count("rank 3/4 local 1/2 group 1/2 attempt 1"), 1) << second.output();
  EXPECT_EQ(first.count("counter 5") + second.count("counter 5"), 0) << "an old key";
}

/// A variable of all launchers that are started while it lives.
class JobSecret {
 public:
  explicit JobSecret(const char* secret) { setenv("SHAMPOO_JOB_SECRET", secret, 1); }
  ~JobSecret() { unsetenv("SHAMPOO_JOB_SECRET"); }
  JobSecret(const JobSecret&) = delete;
  JobSecret& operator=(const JobSecret&) = delete;
};

TEST(LaunchNodes, MeetWithTheSecretOfTheirJobOnly) {
  const std::string port = free_port();
  std::optional<JobSecret> ours("the secret of this job");
  LaunchedJob first(fixed_node("0", port), {"store"});
  ours.reset();
  const Words hasty{"--rdzv-conf", "join_timeout=1"};
  LaunchedJob without(fixed_node("1", port) + hasty, {});
  std::optional<JobSecret> other("the secret of another job");
  LaunchedJob wrong(fixed_node("1", port) + hasty, {});
  other.reset();
  EXPECT_EQ(without.wait(), 1);
  EXPECT_EQ(without.count("SHAMPOO_JOB_SECRET"), 1) << without.output();
  EXPECT_EQ(wrong.wait(), 1);
  EXPECT_EQ(wrong.count("does not prove the job's secret"), 1) << wrong.output();
  ours.emplace("the secret of this job");
  LaunchedJob second(fixed_node("1", port), {"store"});
  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.count("counter 4") + second.count("counter 4"), 1);
}

TEST(LaunchNodes, RefusesASecondNodeOfTheSameRankAndOtherFlags) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"sleep=300"});
  LaunchedJob second(fixed_node("1", port) + Words{"--max-restarts", "2"}, {});

  EXPECT_EQ(second.wait(), 1);
  EXPECT_EQ(second.count("--max-restarts is '1' in the job at 127.0.0.1:" + port + ", not '2'"), 1)
      << second.output();

  LaunchedJob third(fixed_node("1", port), {"print", "forever"});
  ASSERT_TRUE(third.prints("rank 2"));
  LaunchedJob fourth(fixed_node("1", port), {});
  EXPECT_EQ(fourth.wait(), 1);
  EXPECT_EQ(fourth.count("--node-rank 1 is already that of node 1"), 1) << fourth.output();
}

TEST(LaunchNodes, RefusesANodeOfAnotherJobAndOneTooMany) {
  const std::string port = free_port();
  LaunchedJob first(node(port), {"print", "forever"});
  LaunchedJob stranger(node(port) + Words{"--rdzv-id", "other"} + host("0"), {});
  EXPECT_EQ(stranger.wait(), 1);
  EXPECT_EQ(stranger.count("--rdzv-id is 'job' in the job"), 1) << stranger.output();

  LaunchedJob second(node(port), {"print", "forever"});
  ASSERT_TRUE(second.prints("/2"));
  LaunchedJob third(node(port), {});
  EXPECT_EQ(third.wait(), 1);
  EXPECT_EQ(third.count("the job has all its 2 nodes"), 1) << third.output();
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
  const Listener one, another;
  const auto waiting = [](const Listener& store) {
    return fixed_node("1", store.port()) + Words{"--rdzv-conf", "timeout=600"};
  };
  LaunchedJob limited(fixed_node("0", free_port()) + Words{"--rdzv-conf", "timeout=1"}, {});
  LaunchedJob interrupted(waiting(one), {}), orphaned(waiting(another), {});
  ASSERT_TRUE(one.is_found());
  ASSERT_TRUE(another.is_found());
  interrupted.send(SIGINT);
  orphaned.send(SIGKILL);

  EXPECT_EQ(interrupted.wait(), 1) << interrupted.output();
  EXPECT_TRUE(orphaned.leaves_nothing());
  EXPECT_EQ(limited.wait(), 1);
  EXPECT_EQ(limited.count("only 1 of 2 nodes are ready"), 1) << limited.output();
}

TEST(LaunchNodes, ServesThePortOfTheJobOnceItBecomesFree) {
  Listener listener;
  LaunchedJob first(node(listener.port()), {"print"}), second(node(listener.port()), {"print"});
  ASSERT_TRUE(listener.is_found());

  listener.close();

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(second.wait(), 0) << second.output();
  EXPECT_EQ(first.count("rank 0/2") + second.count("rank 0/2"), 1) << first.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
