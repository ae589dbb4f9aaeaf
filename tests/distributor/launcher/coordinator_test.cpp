// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/coordinator.h"

#include <gtest/gtest.h>

#include <vector>

namespace shampoo::launcher {
namespace {

using std::chrono::seconds;
using Kind = Order::Kind;

constexpr Coordinator::Time start{};

JobLimits limits(int least, int most, int restarts) {
  return {least, most, restarts, false, seconds(600), seconds(30)};
}

NodeView node(int id) { return {id, {"host", 100 + id, 2, "default", -1, {}}, {}, false}; }

/// As after the order of this number to wait.
void come_back(NodeView& view, int order) { view.report = {Stage::waiting, order, 0, 0, ""}; }

TEST(Coordinator, RunsAtOnceWithAllNodesAndAfterTheLastCallWithEnough) {
  std::vector<NodeView> nodes{node(1), node(2)};
  Coordinator full(limits(2, 2, 0), start), elastic(limits(1, 3, 0), start);

  EXPECT_TRUE(full.decide(nodes, start).has_value());
  EXPECT_FALSE(elastic.decide(nodes, start).has_value());
  EXPECT_FALSE(elastic.decide(nodes, start + seconds(29)).has_value());
  const auto order = elastic.decide(nodes, start + seconds(30));
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, Kind::run);
  EXPECT_EQ(order->members.size(), 2U);
}

TEST(Coordinator, EndsWhenTooFewJoin) {
  Coordinator coordinator(limits(2, 2, 0), start);
  const std::vector<NodeView> nodes{node(1)};

  EXPECT_FALSE(coordinator.decide(nodes, start + seconds(599)).has_value());
  const auto order = coordinator.decide(nodes, start + seconds(600));

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, Kind::end);
  EXPECT_EQ(order->code, 1);
}

TEST(Coordinator, WaitsForAllBeforeItRestartsAndIgnoresReportsOfOldAttempts) {
  Coordinator coordinator(limits(2, 2, 1), start);
  std::vector<NodeView> nodes{node(1), node(2)};
  ASSERT_EQ(coordinator.decide(nodes, start)->attempt, 0);
  nodes[1].report = {Stage::failed, 0, 0, 7, "rank 2 ended"};

  const auto wait = coordinator.decide(nodes, start);
  ASSERT_TRUE(wait.has_value());
  EXPECT_EQ(wait->kind, Kind::wait);
  come_back(nodes[0], wait->number);
  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  come_back(nodes[1], wait->number);
  const auto run = coordinator.decide(nodes, start);

  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->attempt, 1);
  EXPECT_EQ(run->restarts, 1);
  nodes[0].report = {Stage::failed, 0, 0, 7, "of the first attempt"};
  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[0].report.attempt = 1;
  EXPECT_EQ(coordinator.decide(nodes, start)->code, 7);
}

TEST(Coordinator, WaitsForTheReplacementOfALostNodeWhereThereMayBeOne) {
  JobLimits elastic = limits(2, 2, 1);
  elastic.replaceable = true;
  Coordinator fixed(limits(2, 2, 1), start), patient(elastic, start), lonely(elastic, start);
  std::vector<NodeView> nodes{node(1), node(2)};
  for (Coordinator* one : {&fixed, &patient, &lonely})
    ASSERT_TRUE(one->decide(nodes, start).has_value());
  nodes[1].lost = true;

  const auto end = fixed.decide(nodes, start);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->kind, Kind::end);
  EXPECT_NE(end->text.find("static"), std::string::npos) << end->text;

  for (Coordinator* one : {&patient, &lonely}) {
    const auto wait = one->decide(nodes, start);
    ASSERT_TRUE(wait.has_value());
    EXPECT_EQ(wait->kind, Kind::wait);
    come_back(nodes[0], wait->number);
    EXPECT_FALSE(one->decide(nodes, start + seconds(599)).has_value());
    nodes[0].report = {};
  }
  come_back(nodes[0], 2);
  EXPECT_EQ(lonely.decide(nodes, start + seconds(600))->kind, Kind::end);
  nodes.push_back(node(3));
  const auto run = patient.decide(nodes, start + seconds(600));
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->kind, Kind::run);
  EXPECT_EQ(run->restarts, 1);
  EXPECT_EQ(run->members.back().id, 3);
}

TEST(Coordinator, EndsWellOnceAllSucceededThoughOneIsLostAfterwards) {
  Coordinator coordinator(limits(2, 2, 0), start);
  std::vector<NodeView> nodes{node(1), node(2)};
  ASSERT_TRUE(coordinator.decide(nodes, start).has_value());
  nodes[1].report = {Stage::succeeded, 0, 0, 0, ""};
  nodes[1].lost = true;

  EXPECT_FALSE(coordinator.decide(nodes, start).has_value());
  nodes[0].report = {Stage::succeeded, 0, 0, 0, ""};
  const auto order = coordinator.decide(nodes, start);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, Kind::end);
  EXPECT_EQ(order->code, 0);
  EXPECT_FALSE(coordinator.finished(nodes));
  nodes[0].report.stage = Stage::done;
  EXPECT_TRUE(coordinator.finished(nodes));
}

TEST(Coordinator, GivesRanksInTheOrderOfNodeRanks) {
  Coordinator coordinator(limits(3, 3, 0), start);
  std::vector<NodeView> nodes{node(1), node(2), node(3)};
  nodes[0].introduction.node_rank = 0;
  nodes[1].introduction.node_rank = 2;
  nodes[2].introduction.node_rank = 1;

  const auto order = coordinator.decide(nodes, start);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->members[1].id, 3);
  EXPECT_EQ(order->members[2].id, 2);
}

TEST(Messages, ComeBackAsTheyWere) {
  Order order;
  order.number = 3;
  order.kind = Kind::run;
  order.store_host = "a b";
  order.store_port = 65'535;
  order.members = {{1, 2, "say \"hi\""}, {5, 1, ""}};
  order.text = "two\nlines";

  const Order back = decode_order(encode(order));

  EXPECT_EQ(encode(back), encode(order));
  EXPECT_EQ(back.members[0].role, "say \"hi\"");
  EXPECT_EQ(back.text, "two\nlines");
  EXPECT_ANY_THROW(decode_order("torch"));
}

}  // namespace
}  // namespace shampoo::launcher
