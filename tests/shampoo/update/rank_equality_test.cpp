// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>

#include "tests/shampoo/update/ranks_run.h"

namespace shampoo::test {
namespace {

class ManyRanksAt : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }

  Setting here(Setting setting) const {
    setting.place = GetParam();
    if (setting.place == Place::cpu) return setting;
    setting.shapes = {{}, {1, 7}, {9, 8}, {20, 3}, {2, 3, 2, 4}};
    setting.steps = 4;  // of which the second refreshes
    return setting;
  }
};

TEST_P(ManyRanksAt, GiveTheBitsOfOneInFloat32) { expect_equal_on_all_ranks<float>(here({})); }

TEST_P(ManyRanksAt, GiveTheBitsOfOneInFloat64) {
  Recipe recipe = quick_recipe();
  recipe.arithmetic = Arithmetic::float64;
  expect_equal_on_all_ranks<double>(here({.recipes = {recipe}}));
}

TEST_P(ManyRanksAt, GiveTheBitsOfOneWithSeveralRecipesUnmergedAndAbsentGradients) {
  Recipe other = quick_recipe();
  other.averaging = Momentum{};
  other.grafting = Sgd{};
  Setting setting = here({.recipes = {quick_recipe(), other}, .groups = 5, .absent_every = 4});
  expect_equal_on_all_ranks<float>(setting);
  Setting unmerged = setting;
  unmerged.merges = false;
  EXPECT_EQ(train<float>(3, unmerged).values[2], train<float>(3, setting).values[0]);
}

/// Two groups each of matrices by Muon, vectors by AdamW, and others by SOAP and KL-Shampoo.
Setting kinds_side_by_side() {
  Setting setting{
      .recipes = {recipes::muon(), recipes::adamw(), recipes::soap(), recipes::kl_shampoo()},
      .groups = 8,
      .absent_every = 5};
  for (Recipe& recipe : setting.recipes) recipe.refresh = {.every = 3, .first = 2};
  setting.shapes.clear();
  for (int layer = 0; layer < 3; ++layer)
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{24, 10}, {10}, {9, 8}, {3, 4, 5}})
      setting.shapes.push_back(shape);
  return setting;
}

TEST_P(ManyRanksAt, GiveTheBitsOfOneWithKindsSideBySide) {
  const Setting all = kinds_side_by_side();
  Setting setting = here(all);
  setting.shapes = all.shapes;
  expect_equal_on_all_ranks<float>(setting);
  Setting unmerged = setting;
  unmerged.merges = false;
  EXPECT_EQ(train<float>(3, unmerged).values[2], train<float>(3, setting).values[0]);
}

TEST_P(ManyRanksAt, HaveTheStateOnTheOwnersOnly) {
  const std::int64_t all = train<float>(1, here({})).state_bytes[0];
  for (const int ranks : rank_counts(GetParam())) {
    const Trained<float> run = train<float>(ranks, here({}));
    EXPECT_EQ(std::reduce(run.state_bytes.begin(), run.state_bytes.end()), all);
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ManyRanksAt, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(ManyRanks, WorkWithFewerBlocksThanRanksAndParametersOfOneElement) {
  expect_equal_on_all_ranks<float>({.shapes = {{1}}, .groups = 1});
  expect_equal_on_all_ranks<float>({.shapes = {{}, {3, 2}}, .groups = 2});
}

TEST(ManyRanks, WorkWhereNoParameterOfAVirtualGroupIsPresent) {
  Recipe other = quick_recipe();
  other.bias_correction = false;
  expect_equal_on_all_ranks<float>({.shapes = {{5, 4}, {7}},
                                    .recipes = {quick_recipe(), other},
                                    .groups = 2,
                                    .absent_every = 1});
}

TEST(AGroupAddedLater, GivesTheSameBitsOnAnyNumberOfRanks) {
  const auto train_and_add = [](int ranks) {
    std::vector<std::vector<std::vector<float>>> values(static_cast<std::size_t>(ranks));
    run_ranks(ranks, [&](Communicator& threads) {
      ToyModel<float> model(awkward_shapes());
      const auto backend = cpu_backend({.threads = 1});
      auto groups = model.groups(quick_recipe(), {});
      const std::vector<ParameterGroup> later(groups.begin() + 6, groups.end());
      groups.resize(6);
      Optimizer optimizer(*backend, threads, groups);
      for (int step = 0; step < 3; ++step) optimizer.step();
      for (const ParameterGroup& group : later) optimizer.add_group(group);
      for (int step = 0; step < 4; ++step) optimizer.step();
      values[static_cast<std::size_t>(threads.rank())] = model.values();
    });
    return values;
  };
  const auto alone = train_and_add(1);
  for (const auto& values : train_and_add(3)) EXPECT_EQ(values, alone[0]);
}

TEST(OneStep, HasOneCollectiveForAnyNumberOfGroupsAndReceivesWhatItDoesNotOwn) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (int i = 0; i < 465; ++i) shapes.push_back({5 + i % 3, 4});
  std::int64_t updates = 0;
  for (const auto& shape : shapes) updates += shape[0] * shape[1] * 4;
  for (const int groups : {1, 28, 465})
    for (const int ranks : {2, 3, 8}) {
      const Trained<float> run =
          train<float>(ranks, {.shapes = shapes, .groups = groups, .steps = 3});
      EXPECT_EQ(run.collectives, 1) << groups << " groups, " << ranks << " ranks";
      // Every rank receives the segments of the others: (R - 1) / R of all updates on average, a
      // header and at most 63 bytes of alignment with each, and at most 4 % for equal lengths. The
      // blocks are multiples of 16 bytes.
      EXPECT_GE(run.received, (ranks - 1) * updates);
      EXPECT_LE(100 * run.received, 104 * (ranks - 1) * (updates + ranks * (64 + 63)));
    }
}

}  // namespace
}  // namespace shampoo::test
