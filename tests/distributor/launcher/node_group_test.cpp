// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/node_group.h"

#include <gtest/gtest.h>

#include "distributor/launcher/local_store.h"

namespace shampoo::launcher::test {
namespace {

using std::chrono::seconds;

/// Counts what is asked of it.
class CountingStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { store_.set(key, value); }
  std::optional<std::string> get(std::string_view key) override {
    ++gets;
    return store_.get(key);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return store_.add(key, amount);
  }
  bool remove(std::string_view key) override { return store_.remove(key); }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    return store_.wait(keys, longest);
  }
  void set_deadline(std::chrono::milliseconds) override {}
  std::string description() const override { return "a test"; }

  int gets = 0;

 private:
  LocalStore store_;
};

RendezvousTimes times() { return {seconds(600), seconds(1), seconds(5), 3}; }

JobLimits two_nodes() { return {2, 2, 0, false, seconds(600), seconds(1)}; }

NodeGroup join(Store& store, NodeGroup::Time now, bool host) {
  Introduction introduction;
  introduction.host = "node";
  auto coordinator = host ? std::optional(Coordinator(two_nodes(), now)) : std::nullopt;
  return {store, "job", introduction, times(), std::move(coordinator), [](Order&) {}};
}

TEST(NodeGroups, DoNotBelieveACounterThatLeaps) {
  CountingStore store;
  NodeGroup::Time now{};
  NodeGroup host = join(store, now, true);
  host.report({});
  store.add("shampoorun/nodes", 1'000'000'000'000);

  EXPECT_FALSE(host.tick(now).has_value());
  EXPECT_LT(store.gets, 2000);
  now += seconds(16);
  host.tick(now);
  store.gets = 0;
  host.tick(now);
  EXPECT_LT(store.gets, 10) << "those without an introduction are forgotten";
}

TEST(NodeGroups, FindNodesThatJoinAfterALeapOfTheCounter) {
  LocalStore store;
  const NodeGroup::Time now{};
  NodeGroup host = join(store, now, true);
  host.report({});
  store.add("shampoorun/nodes", 1'000'000);
  EXPECT_FALSE(host.tick(now).has_value());

  NodeGroup other = join(store, now, false);
  other.report({});
  const auto order = host.tick(now);

  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->members.size(), 2U);
}

}  // namespace
}  // namespace shampoo::launcher::test
