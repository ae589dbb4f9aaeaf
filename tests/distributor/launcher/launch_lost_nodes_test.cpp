// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <csignal>
#include <string>

#include "launched_job.h"
#include "node_flags.h"

namespace shampoo::launcher::test {
namespace {

TEST(LaunchLostNodes, GoesOnWithoutANodeThatIsKilledOrSilentWhereItMay) {
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

TEST(LaunchLostNodes, FailsWithTheNameOfANodeThatIsNeededButGone) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port), {"print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  second.send(SIGKILL);

  EXPECT_EQ(first.wait(), 1);
  EXPECT_GE(first.count("the job ends: node 1 on "), 1) << first.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchLostNodes, EndsWithAnErrorWhenTheHostOfTheJobDies) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port), {"daemon", "print", "forever"});
  ASSERT_TRUE(first.prints("rank 0") && second.prints("rank 2"));

  for (const pid_t half : children_of(first.pid())) kill(half, SIGKILL);

  EXPECT_EQ(second.wait(), 1);
  EXPECT_EQ(second.count("127.0.0.1:" + port + " is gone"), 1) << second.output();
  EXPECT_TRUE(first.leaves_nothing() && second.leaves_nothing());
}

TEST(LaunchLostNodes, AreReplacedWhereTheyMayBe) {
  const std::string port = free_port();
  const Words actions{"print", "attempt=0", "forever"};
  LaunchedJob first(node("2", port, "1") + host("1"), actions);
  LaunchedJob lost(node("2", port, "1") + host("0"), actions);
  ASSERT_TRUE(first.prints("rank") && lost.prints("rank"));

  lost.send(SIGKILL);
  ASSERT_TRUE(first.prints("next attempt: ")) << first.output();
  LaunchedJob other(node("2", port, "1") + host("0"), actions);

  EXPECT_EQ(first.wait(), 0) << first.output();
  EXPECT_EQ(other.wait(), 0) << other.output();
  EXPECT_EQ(other.count("rank 1/2 local 0/1 group 1/2 attempt 1 restarts 1"), 1) << other.output();
}

TEST(LaunchLostNodes, DoNotDelaySignals) {
  const std::string port = free_port();
  LaunchedJob first(fixed_node("0", port), {"print", "forever"});
  LaunchedJob second(fixed_node("1", port), {"note=15", "print", "forever"});
  ASSERT_TRUE(first.prints("rank 1") && second.prints("rank 3") && second.prints("rank 2"));
  const std::vector<pid_t> agents = children_of(first.pid());
  ASSERT_EQ(agents.size(), 1U);

  kill(agents.front(), SIGSTOP);
  second.send(SIGTERM);

  EXPECT_TRUE(second.prints("SP")) << second.output();
  EXPECT_EQ(second.wait(), 1) << second.output();
}

}  // namespace
}  // namespace shampoo::launcher::test
