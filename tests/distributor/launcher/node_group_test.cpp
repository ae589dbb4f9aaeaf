// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/node_group.h"

#include <gtest/gtest.h>

#include "tests/support/memory_store.h"

namespace shampoo::launcher::test {
namespace {

using std::chrono::seconds;

/// The store of a job of two nodes with two workers each.
class NodeGroups : public testing::Test {
 protected:
  NodeGroups() {
    options_.nodes = options_.workers = 2;
    options_.rendezvous = Rendezvous::dynamic;
    options_.run_id = "job";
  }
  NodeGroup join(bool is_host) {
    return {store_, options_, {"node", 7, 2, "default"}, is_host, [this] { ++attempts_; }};
  }
  std::string refusal() {
    try {
      join(false);
    } catch (const Refused& error) {
      return error.what();
    }
    return "";
  }

  LaunchOptions options_;
  shampoo::test::MemoryStore store_;
  int attempts_ = 0;
  NodeGroup::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(NodeGroups, RunOnceAllHaveJoined) {
  NodeGroup host = join(true);
  EXPECT_FALSE(host.tick(now_).has_value());

  NodeGroup other = join(false);
  const auto order = host.tick(now_);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, OrderKind::run);
  EXPECT_EQ(attempts_, 1);
  EXPECT_EQ(other.node(), 1);
  ASSERT_TRUE(other.tick(now_).has_value());
  EXPECT_FALSE(other.tick(now_).has_value()) << "twice the same order";
}

TEST_F(NodeGroups, RefuseOneTooManyOtherTermsAndOtherPrograms) {
  store_.set("shampoorun/job", "torch");
  EXPECT_NE(refusal().find("is no shampoorun"), std::string::npos);
  NodeGroup host = join(true);
  options_.max_restarts = 3;
  EXPECT_EQ(refusal(), "--max-restarts is '0' in the job at localhost:0, not '3'");
  options_.max_restarts = 0;
  NodeGroup other = join(false);

  EXPECT_EQ(refusal(), "the job has all its 2 nodes");
  options_.rendezvous = Rendezvous::fixed;
  options_.node_rank = 1;
  store_.set("shampoorun/job", R"({"protocol of shampoorun":"2","--rdzv-id":"job","--nnodes":"2",)"
                               R"("--max-restarts":"0","--rdzv-backend":"static"})");
  EXPECT_EQ(refusal(), "--node-rank 1 is already that of node 1 on node (pid 7)");
}

TEST_F(NodeGroups, CountANodeAsLostWhoseMessagesCannotBeDecoded) {
  NodeGroup host = join(true), other = join(false);
  ASSERT_TRUE(host.tick(now_).has_value());
  for (int second = 0; second < 14; ++second) {
    store_.set("shampoorun/report/1", "x");
    EXPECT_FALSE(host.tick(now_ += seconds(1)).has_value()) << second;
  }

  now_ += seconds(2);
  const auto order = host.tick(now_);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->kind, OrderKind::end);
  EXPECT_NE(order->text.find("node 1 on node (pid 7) is gone"), std::string::npos) << order->text;
}

TEST_F(NodeGroups, DoNotBlameOthersForAPauseOfTheHost) {
  NodeGroup host = join(true), other = join(false);
  ASSERT_TRUE(host.tick(now_).has_value());

  EXPECT_FALSE(host.tick(now_ + seconds(3600)).has_value());
}

TEST_F(NodeGroups, BelieveOnlyOrdersThatGiveThemTheirOwnWorkers) {
  NodeGroup host = join(true), other = join(false);
  Order order;
  order.kind = OrderKind::run;
  const auto obeyed = [&](int number, const std::vector<Member>& members) {
    order.number = number;
    order.members = members;
    store_.set("shampoorun/order", encode(order));
    return other.tick(now_).has_value();
  };

  EXPECT_FALSE(obeyed(1, {{2, "default"}, {40, "default"}}));
  EXPECT_FALSE(obeyed(1, {{2, "default"}}));
  EXPECT_FALSE(obeyed(1, {}));
  store_.set("shampoorun/order", "not JSON");
  EXPECT_FALSE(other.tick(now_).has_value());
  EXPECT_TRUE(obeyed(1, {{9, "default"}, {2, "default"}})) << "the other node may have any number";
}

}  // namespace
}  // namespace shampoo::launcher::test
