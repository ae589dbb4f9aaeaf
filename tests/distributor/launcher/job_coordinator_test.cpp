// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/job_coordinator.h"

#include <gtest/gtest.h>

#include <vector>

#include "distributor/launcher/worker_setup.h"

namespace shampoo::launcher {
namespace {

using std::chrono::seconds;

constexpr JobCoordinator::Time start{};
constexpr seconds join{600};

NodeView node(int pid) { return {Introduction{"host", 100 + pid, 2, "default"}, {}, false}; }

/// The state after the order of this number to wait.
Report ready_after(int order) { return {.order = order, .text = ""}; }

TEST(JobCoordinator, RunsOnceAllNodesAreThere) {
  JobCoordinator coordinator(0, join, start);
  std::vector<NodeView> nodes{node(0), NodeView()};

  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[1] = node(1);
  const auto order = coordinator.decide(nodes, start);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, OrderKind::run);
  EXPECT_EQ(order->members.size(), 2U);
}

TEST(JobCoordinator, EndsWhenTooFewJoin) {
  JobCoordinator coordinator(0, join, start);
  const std::vector<NodeView> nodes{node(0), NodeView()};

  EXPECT_FALSE(coordinator.decide(nodes, start + seconds(599)).has_value());
  const auto order = coordinator.decide(nodes, start + join);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, OrderKind::end);
  EXPECT_EQ(order->code, 1);
}

TEST(JobCoordinator, WaitsForAllBeforeItRestartsAndIgnoresReportsOfOldAttempts) {
  JobCoordinator coordinator(1, join, start);
  std::vector<NodeView> nodes{node(0), node(1)};
  ASSERT_EQ(coordinator.decide(nodes, start)->attempt, 0);
  nodes[1].report = {Stage::failed, 0, 0, 7, "rank 2 failed", 0};

  const auto wait = coordinator.decide(nodes, start);
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(wait->kind, OrderKind::wait);
  nodes[0].report = ready_after(wait->number);
  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[1].report = ready_after(wait->number);
  const auto run = coordinator.decide(nodes, start);

  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->attempt, 1);
  nodes[0].report = {Stage::failed, 0, 0, 7, "of the first attempt", 0};
  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[0].report.attempt = 1;
  EXPECT_EQ(coordinator.decide(nodes, start)->code, 7);
}

TEST(JobCoordinator, RestartsWithALostNodeThatComesBackAndEndsWithoutIt) {
  JobCoordinator last(0, join, start), back(1, join, start), gone(1, join, start);
  std::vector<NodeView> nodes{node(0), node(1)};
  for (JobCoordinator* one : {&last, &back, &gone})
    ASSERT_TRUE(one->decide(nodes, start).has_value());
  nodes[1].lost = true;

  const auto end = last.decide(nodes, start);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->kind, OrderKind::end);
  EXPECT_NE(end->text.find("node 1 on host"), std::string::npos) << end->text;

  EXPECT_EQ(back.decide(nodes, start)->kind, OrderKind::wait);
  EXPECT_EQ(gone.decide(nodes, start)->kind, OrderKind::wait);
  nodes[0].report = ready_after(2);
  EXPECT_FALSE(back.decide(nodes, start + seconds(599)).has_value());
  EXPECT_EQ(gone.decide(nodes, start + join)->kind, OrderKind::end);
  nodes[1].lost = false;
  nodes[1].report = ready_after(2);
  const auto run = back.decide(nodes, start + join);
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->kind, OrderKind::run);
  EXPECT_EQ(run->attempt, 1);
}

TEST(JobCoordinator, EndsWellOnceAllSucceededThoughOneIsLostAfterwards) {
  JobCoordinator coordinator(0, join, start);
  std::vector<NodeView> nodes{node(0), node(1)};
  ASSERT_TRUE(coordinator.decide(nodes, start).has_value());
  nodes[1].report.stage = Stage::succeeded;
  nodes[1].lost = true;

  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[0].report.stage = Stage::succeeded;
  const auto order = coordinator.decide(nodes, start);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, OrderKind::end);
  EXPECT_EQ(order->code, 0);
  EXPECT_FALSE(all_ended(nodes));
  nodes[0].report.stage = Stage::done;
  EXPECT_TRUE(all_ended(nodes));
}

TEST(JobCoordinator, EndsWhenANodeLeavesOrCannotRun) {
  for (const Stage stage : {Stage::leaving, Stage::broken}) {
    JobCoordinator coordinator(5, join, start);
    std::vector<NodeView> nodes{node(0), node(1)};
    nodes[1].report = {stage, 0, 0, 0, "the reason", 0};

    const auto order = coordinator.decide(nodes, start);

    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order->kind, OrderKind::end);
    EXPECT_NE(order->text.find("the reason"), std::string::npos) << order->text;
  }
}

TEST(Ranks, CountOverNodesAndOverEqualRoles) {
  Order order;
  order.members = {{2, "trainer"}, {1, "reader"}, {3, "trainer"}};

  const std::vector<WorkerRanks> ranks = ranks_of(order, 2);

  ASSERT_EQ(ranks.size(), 3U);
  EXPECT_EQ(ranks[1].rank, 4);
  EXPECT_EQ(ranks[1].world_size, 6);
  EXPECT_EQ(ranks[1].local_rank, 1);
  EXPECT_EQ(ranks[1].local_world_size, 3);
  EXPECT_EQ(ranks[1].group_rank, 2);
  EXPECT_EQ(ranks[1].group_world_size, 3);
  EXPECT_EQ(ranks[1].role_rank, 3);
  EXPECT_EQ(ranks[1].role_world_size, 5);
}

TEST(Messages, ComeBackAsTheyWere) {
  Order order;
  order.number = 3;
  order.kind = OrderKind::run;
  order.members = {{2, "say \"hi\""}, {1, ""}};
  order.text = "two\nlines";

  const auto back = decode<Order>(encode(order));

  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(encode(*back), encode(order));
  EXPECT_EQ(back->members[0].role, "say \"hi\"");
  EXPECT_EQ(back->text, "two\nlines");
}

TEST(Messages, OfOthersAreNone) {
  for (const char* text :
       {"", "torch", "null", "3", "[]", "{}", R"({"number":1})",
        R"({"number":1,"kind":"run","attempt":0,"members":3,"code":0,"text":""})"})
    EXPECT_FALSE(decode<Order>(text).has_value()) << text;
  Order order;
  order.number = 1;
  for (const int workers : {-1, 0, 65'536}) {
    order.members = {{workers, ""}};
    EXPECT_FALSE(decode<Order>(encode(order)).has_value()) << workers;
    EXPECT_FALSE(decode<Introduction>(encode(Introduction{"h", 1, workers, ""})).has_value());
  }
  EXPECT_FALSE(decode<Report>(R"({"stage":"done"})").has_value());
}

}  // namespace
}  // namespace shampoo::launcher
