// SPDX-License-Identifier: Apache-2.0
#include "grouping/plan.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <tuple>

#include "tests/grouping/sample_groups.h"

namespace shampoo::grouping {
namespace {

constexpr std::int64_t largest_integer = std::numeric_limits<std::int64_t>::max();

/// Every piece of every parameter belongs to one block of the virtual group of its recipe.
void expect_complete(const Plan& plan) {
  std::set<std::tuple<int, int, int>> seen;
  for (int v = 0; v < static_cast<int>(plan.virtual_groups.size()); ++v)
    for (const Block& block : plan.blocks[v]) {
      const Member& member = plan.virtual_groups[v].members[block.member];
      EXPECT_EQ(plan.groups[member.group].recipe, plan.virtual_groups[v].recipe);
      EXPECT_GE(block.owner, 0);
      EXPECT_LT(block.owner, plan.ranks);
      EXPECT_TRUE(seen.emplace(member.group, member.parameter, block.index).second);
    }
  std::size_t pieces = 0;
  for (const PlannedGroup& group : plan.groups)
    for (const PlannedParameter& parameter : group.parameters) pieces += parameter.blocks.size();
  EXPECT_EQ(seen.size(), pieces);
}

/// Every list of blocks in `before` is the beginning of that list in `after`, owners included.
void expect_prefix(const Plan& before, const Plan& after) {
  ASSERT_LE(before.blocks.size(), after.blocks.size());
  for (std::size_t v = 0; v < before.blocks.size(); ++v) {
    EXPECT_EQ(before.virtual_groups[v].recipe, after.virtual_groups[v].recipe);
    ASSERT_LE(before.blocks[v].size(), after.blocks[v].size());
    for (std::size_t b = 0; b < before.blocks[v].size(); ++b)
      EXPECT_EQ(before.blocks[v][b], after.blocks[v][b]) << "block " << b << " of " << v;
  }
}

/// Every element that a rank owns lies once in its flat run, and the run has no gap but what the
/// alignment takes.
void expect_dense(const Plan& plan) {
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v) {
    const auto all = stacks(plan, v);
    for (int r = 0; r < plan.ranks; ++r) {
      std::int64_t owned = 0, found = 0, end = 0;
      for (const Block& block : plan.blocks[v])
        if (block.owner == r) owned += numel(plan.block_work(v, block).box.extent);
      for (const Stack& stack : all[r]) {
        EXPECT_EQ(stack.offset, end);
        const auto count = static_cast<std::int64_t>(stack.blocks.size());
        found += numel(stack.extent) * count;
        end += flat_stride(stack.extent) * count;
      }
      EXPECT_EQ(found, owned);
    }
  }
}

TEST(Plan, HoldsForThousandsOfRandomModels) {
  std::mt19937 random(2024);
  for (int trial = 0; trial < 4000 && !testing::Test::HasFailure(); ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const int ranks = 1 + static_cast<int>(random() % 7);

    const Plan first = plan(test::random_groups(random, "first."), ranks);
    const Plan second = extend(first, test::random_groups(random, "second."));

    expect_complete(first);
    expect_complete(second);
    expect_prefix(first, second);
    expect_dense(second);
    EXPECT_EQ(plan(first.groups, ranks), first);
  }
}

TEST(Plan, OfNothingHasNoBlock) {
  const Plan nothing = plan({}, 3);

  EXPECT_TRUE(nothing.virtual_groups.empty());
  EXPECT_EQ(loads(nothing), std::vector<Work>(3));
  EXPECT_EQ(extend(nothing, {}), nothing);
}

TEST(Plan, AcceptsEmptyTensorsAndEmptyGroups) {
  const Plan made = plan({{"a", {test::parameter("empty", {3, 0}, 8)}},
                          {"b", {}},
                          {"a", {test::parameter("scalar", {}, 8)}}},
                         2);

  ASSERT_EQ(made.blocks.size(), 2u);
  EXPECT_EQ(made.blocks[0], (std::vector<Block>{{1, 0, 0}}));
  EXPECT_TRUE(made.blocks[1].empty());
}

TEST(Plan, BalancesAllVirtualGroupsTogether) {
  // Alone, each of the eight virtual groups would give its only block to rank 0.
  std::vector<PlannedGroup> groups(8);
  for (int g = 0; g < 8; ++g)
    groups[g] = {std::to_string(g), {test::parameter("p" + std::to_string(g), {16, 16}, 16)}};

  const Plan made = plan(groups, 8);

  const Work each = test::root_inverse_work({16, 16});
  EXPECT_EQ(loads(made), std::vector<Work>(8, each));
}

TEST(Plan, OfOneGroupHasTheOwnersOfTheSameGroupSplit) {
  const PlannedGroup whole = test::groups_of("small", 1)[0];
  std::vector<PlannedGroup> single;
  for (const PlannedParameter& parameter : whole.parameters)
    single.push_back({whole.recipe, {parameter}, whole.interval});

  const Plan one = plan({whole}, 4), many = plan(single, 4);

  EXPECT_EQ(one.blocks, many.blocks);
}

using BlockName = std::pair<std::string, int>;

std::map<BlockName, std::int64_t> phases_of(const Plan& plan) {
  std::map<BlockName, std::int64_t> phases;
  for (int v = 0; v < static_cast<int>(plan.blocks.size()); ++v)
    for (const Block& block : plan.blocks[v])
      phases[{plan.parameter(v, block).name, block.index}] = block.phase;
  return phases;
}

/// One group for every parameter, with a recipe of its own, in any order.
std::vector<PlannedGroup> unmerged(const std::vector<PlannedGroup>& groups, std::mt19937& random) {
  std::vector<PlannedGroup> alone;
  for (const PlannedGroup& group : groups)
    for (const PlannedParameter& parameter : group.parameters)
      alone.push_back({group.recipe + " of " + parameter.name, {parameter}, group.interval});
  for (std::size_t i = 1; i < alone.size(); ++i) std::swap(alone[i], alone[random() % (i + 1)]);
  return alone;
}

TEST(Plan, HasPhasesThatDependOnNeitherRanksNorGroupsNorTheirOrder) {
  std::mt19937 random(5);
  std::int64_t largest = 0;
  for (int trial = 0; trial < 500; ++trial) {
    SCOPED_TRACE("trial " + std::to_string(trial));
    const std::vector<PlannedGroup> early = test::random_groups(random, "early."),
                                    late = test::random_groups(random, "late.");
    const auto phases = phases_of(extend(plan(early, 3), late));

    EXPECT_EQ(phases_of(extend(plan(early, 1), late)), phases);
    EXPECT_EQ(phases_of(extend(plan(unmerged(early, random), 5), unmerged(late, random))), phases);
    for (const auto& [block, phase] : phases) largest = std::max(largest, phase);
  }
  EXPECT_EQ(largest, 3);
}

TEST(Plan, FillsTheEmptyPhasesWithAddedGroups) {
  const auto group = [](const std::string& name, const Shape& shape) {
    return PlannedGroup{"a", {test::parameter(name, shape, 8)}, 4};
  };
  const Plan before = plan({group("first", {24})}, 2);  // three vectors of 8

  const Plan after = extend(before, {group("second", {16, 8})});

  expect_prefix(before, after);
  std::vector<std::int64_t> phases;
  for (const Block& block : after.blocks[0]) phases.push_back(block.phase);
  EXPECT_EQ(phases, (std::vector<std::int64_t>{0, 1, 2, 3, 0}));
}

TEST(Plan, PlacesAddedGroupsAroundTheOldOnes) {
  const std::vector<PlannedGroup> groups = test::groups_of("vit-b16", 2);
  const Plan before = plan({groups[0]}, 8);

  const Plan after = extend(before, {groups[1]});

  expect_prefix(before, after);
  std::vector<Work> works;
  for (const Block& block : after.blocks[0]) works.push_back(after.block_work(0, block).work);
  const std::int64_t bound = lower_bounds(works, 8).cost;
  // Greedy placement never exceeds an idlest rank by more than a block; one more of 1024 x 768
  // is the worst that the second half can do to a balanced first half.
  const std::int64_t block = test::root_inverse_work({1024, 768}).cost;
  for (const Work& rank : loads(after)) EXPECT_LE(rank.cost, bound + block);
}

/// What `action` throws must name everything in `words`.
void expect_refused(const std::function<void()>& action, const std::vector<std::string>& words) {
  try {
    action();
    ADD_FAILURE() << "nothing thrown";
  } catch (const std::invalid_argument& error) {
    for (const std::string& word : words)
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
          << "'" << word << "' not in: " << error.what();
  }
}

TEST(Plan, NamesTheParameterThatIsWrong) {
  const auto refuse = [](const std::function<void(PlannedParameter&)>& spoil, const char* field) {
    PlannedParameter parameter = test::parameter("layer.weight", {5, 3}, 4);
    spoil(parameter);
    const std::vector<PlannedGroup> groups = {
        {"a", {test::parameter("first", {2}, 4), std::move(parameter)}}};
    expect_refused([&] { plan(groups, 2); }, {"layer.weight", field});
  };
  refuse([](PlannedParameter& p) { p.element_bytes = 0; }, "element_bytes");
  refuse([](PlannedParameter& p) { p.shape = {-1, 3}; }, "at least 0");
  refuse([](PlannedParameter& p) { p.shape = {largest_integer, 3}; }, "2^63 - 1");
  refuse([](PlannedParameter& p) { p.blocks[0].work.cost = -1; }, "cost");
  refuse([](PlannedParameter& p) { p.blocks[0].work.bytes = largest_integer; }, "bytes");
  refuse([](PlannedParameter& p) { p.blocks[1].work.state = largest_integer; }, "state");
  refuse([](PlannedParameter& p) { p.blocks[1].refresh = -1; }, "refresh");
  refuse([](PlannedParameter& p) { p.blocks.pop_back(); }, "12 elements");
  refuse([](PlannedParameter& p) { p.blocks.push_back(p.blocks[0]); }, "27 elements");
  refuse([](PlannedParameter& p) { p.blocks[1].box.offset = {5, 0}; }, "inside");
  refuse([](PlannedParameter& p) { p.blocks[1].box.offset = {largest_integer, 0}; }, "inside");
  refuse([](PlannedParameter& p) { p.blocks[0].box.extent = {12}; }, "inside");
  refuse([](PlannedParameter& p) { p.blocks[0].box.extent = {0, 3}; }, "inside");
}

TEST(Plan, NamesTheRanksThatAreWrong) {
  expect_refused([] { plan({}, 0); }, {"ranks"});
}

}  // namespace
}  // namespace shampoo::grouping
