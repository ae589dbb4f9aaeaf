// SPDX-License-Identifier: Apache-2.0
#include "grouping/stagger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "tests/bench/scaling_model.h"
#include "tests/grouping/sample_groups.h"
#include "tests/support/named_recipes.h"

namespace shampoo::grouping {
namespace {

std::vector<std::int64_t> phases_of(std::vector<BlockRefresh> blocks) {
  stagger(blocks);
  std::vector<std::int64_t> phases;
  for (const BlockRefresh& block : blocks) phases.push_back(block.phase);
  return phases;
}

TEST(Stagger, DealsEqualBlocksInTurn) {
  EXPECT_EQ(phases_of(std::vector<BlockRefresh>(7, {.work = 5, .interval = 3})),
            (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(Stagger, TakesTheIdlestOfThePhasesWithFewestBlocksOfTheWork) {
  EXPECT_EQ(phases_of({{9, 3}, {4, 3}, {5, 3}, {1, 3}, {1, 3}, {1, 3}, {1, 3}}),
            (std::vector<std::int64_t>{0, 1, 2, 1, 2, 0, 1}));
}

TEST(Stagger, CountsEveryIntervalByItself) {
  EXPECT_EQ(phases_of({{1, 2}, {1, 3}, {1, 2}, {1, 3}, {1, 1}, {1, 3}, {1, 2}}),
            (std::vector<std::int64_t>{0, 0, 1, 1, 0, 2, 0}));
}

TEST(Stagger, LeavesBlocksWithoutWorkAtPhase0) {
  EXPECT_EQ(phases_of({{0, 2}, {3, 2}, {0, 2}, {3, 2}}), (std::vector<std::int64_t>{0, 0, 0, 1}));
}

TEST(Stagger, NeedsNoMemoryForPhasesWithoutBlocks) {
  EXPECT_EQ(phases_of(std::vector<BlockRefresh>(3, {.work = 1, .interval = INT64_MAX})),
            (std::vector<std::int64_t>{0, 1, 2}));
}

TEST(Stagger, KeepsKnownPhasesAndLevelsAllWorks) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 500; ++trial) {
    std::vector<BlockRefresh> all(1 + random() % 60);
    for (BlockRefresh& block : all)
      block = {.work = 1 + static_cast<std::int64_t>(random() % 4), .interval = 3};
    stagger(all);

    std::vector<BlockRefresh> again = all;
    for (std::size_t b = all.size() / 2; b < all.size(); ++b) again[b].phase = 2;
    stagger(again, all.size() / 2);
    ASSERT_EQ(again, all);
    std::vector<std::int64_t> works(3);
    std::map<std::int64_t, std::vector<int>> counts;
    for (const BlockRefresh& block : all) {
      works[block.phase] += block.work;
      counts.try_emplace(block.work, 3).first->second[block.phase]++;
    }
    for (const auto& [work, count] : counts)
      ASSERT_LE(*std::ranges::max_element(count), *std::ranges::min_element(count) + 1);
    ASSERT_LE(*std::ranges::max_element(works), *std::ranges::min_element(works) + 1 + 2 + 3 + 4);
  }
}

/// A model, a recipe by name, the number of ranks.
class StaggeredModel : public testing::TestWithParam<std::tuple<std::string, std::string, int>> {};

std::string name_of(const testing::TestParamInfo<StaggeredModel::ParamType>& info) {
  const auto& [model, recipe, ranks] = info.param;
  std::string name = model + "_" + recipe + "_on_" + std::to_string(ranks);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '-' || c == '.'; }, '_');
  return name;
}

TEST_P(StaggeredModel, KeepsRootsOfEveryStepAndRankLevelBesideCostAndBytes) {
  const auto [model, recipe, ranks] = GetParam();
  test::Job job{.model = test::load_model(model), .recipe = {}};
  job.recipe = test::named_recipe(recipe, job.model.block_size, 10).recipe;

  const Plan made = plan({test::planned_group(job)}, ranks);

  const std::vector<RefreshBalance> balances = refresh_balances(made);
  ASSERT_EQ(balances.size(), 1u);
  const RefreshBalance& roots = balances.front();
  EXPECT_EQ(roots.interval, 10);
  // No rank can do less in its longest step than the bound. It is the mean, unless there are so few
  // blocks for all ranks and steps that the largest, or two that must meet, exceed it.
  const std::int64_t mean = roots.all / (ranks * roots.interval);
  EXPECT_LE(roots.largest, std::max(mean + mean * 15 / 100, roots.bound));
  EXPECT_GE(roots.bound, mean);
  RecordProperty("largest_per_mille_of_mean", std::to_string(roots.largest * 1000 / mean));

  std::vector<Work> works;
  for (const Block& block : made.blocks[0]) works.push_back(made.block_work(0, block).work);
  const Work bounds = lower_bounds(works, ranks);
  for (const Work& rank : loads(made)) {
    EXPECT_LE(rank.cost, bounds.cost + bounds.cost / 20);
    EXPECT_LE(rank.bytes, bounds.bytes + bounds.bytes / 20);
    EXPECT_LE(rank.state, bounds.state + bounds.state / 10);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, StaggeredModel,
                         testing::Combine(testing::ValuesIn(std::vector<std::string>(
                                              test::model_names.begin(), test::model_names.end())),
                                          testing::Values("shampoo", "soap", "kl_shampoo"),
                                          testing::Values(1, 2, 8, 32)),
                         name_of);

}  // namespace
}  // namespace shampoo::grouping
