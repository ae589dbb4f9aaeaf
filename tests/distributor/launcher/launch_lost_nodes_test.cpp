// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "launched_job.h"
#include "node_flags.h"

namespace shampoo::launcher::test {
namespace {

const Words no_restart{"--max-restarts", "0"}, quick_shutdown{"--shutdown-timeout", "0.3"};

TEST(LaunchLostNodes, RestartTogetherWithANodeThatWasSilentForAWhile) {
  const std::string port = free_port();
  const Words actions{"print", "attempt=0", "forever"};
  LaunchedJob first(node(port) + host("1"), actions);
  LaunchedJob silent(node(port) + host("0"), actions);
  ASSERT_TRUE(first.prints("rank 0/2") && silent.prints("rank 1/2"));

  silent.send(SIGSTOP);
  ASSERT_TRUE(first.prints("next attempt: node 1 on ")) << first.output();
  silent.send(SIGCONT);

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(silent.wait(), 0) << silent.output();
  EXPECT_EQ(first.count("rank 0/2 local 0/1 group 0/2 attempt 1"), 1) << first.output();
  EXPECT_EQ(silent.count("rank 1/2 local 0/1 group 1/2 attempt 1"), 1) << silent.output();
}

TEST(LaunchLostNodes, EndTheJobByNameWhereNoRestartIsLeft) {
  const std::string port = free_port();
  LaunchedJob first(node(port) + host("1") + no_restart, {"print", "forever"});
  LaunchedJob second(node(port) + host("0") + no_restart, {"print", "forever"});
  ASSERT_TRUE(first.prints("rank 0/2") && second.prints("rank 1/2"));

  second.send(SIGKILL);

  EXPECT_EQ(first.wait(), 1);
  EXPECT_GE(first.count("the job ends: node 1 on "), 1) << first.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchLostNodes, EndTheirWorkersWhenTheHostOfTheJobDies) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port) + quick_shutdown, {"child", "print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  first.send(SIGKILL);

  EXPECT_EQ(second.wait(), 1);
  EXPECT_EQ(second.count("127.0.0.1:" + port + " is gone"), 1) << second.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchLostNodes, DoNotDelaySignals) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port) + quick_shutdown, {"note=15", "print", "forever"});
  ASSERT_TRUE(first.prints("rank 1") && second.prints("rank 3") && second.prints("rank 2"));

  first.send(SIGSTOP);
  second.send(SIGTERM);

  EXPECT_TRUE(second.prints("SP")) << second.output();
  EXPECT_EQ(second.wait(), 1) << second.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
