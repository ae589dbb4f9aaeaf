// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>

#include "shampoo/update/block_chunks.h"
#include "tests/shampoo/update/ranks_run.h"
#include "tests/support/cpu_kernels.h"

namespace shampoo::test {
namespace {

/// Shampoo with momentum, SOAP of vectors too, KL-Shampoo in eigenbases.
std::vector<Recipe> matrix_recipes() {
  Recipe shampoo = quick_recipe();
  shampoo.averaging = Momentum{};
  Recipe soap = recipes::soap_reference();
  Recipe kl = quick_recipe();
  kl.preconditioner = KullbackLeibler{.form = Eigendecomposed{}};
  for (Recipe* const recipe : {&soap, &kl}) {
    recipe->blocking.size = 8;
    recipe->refresh = {.every = 3, .first = 2};
  }
  return {shampoo, soap, kl};
}

class ChunksOfDirections : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }

  void expect_the_bits_of_all_at_once(Setting setting) {
    setting.place = GetParam();
    setting.direction_bytes = std::int64_t{1} << 30;
    const auto whole = train<float>(1, setting).values[0];
    for (const bool merges : {true, false})
      for (const int ranks : {1, 3})
        // One block at a time, and a few.
        for (const std::int64_t bytes : {0, 700}) {
          setting.merges = merges;
          setting.direction_bytes = bytes;
          for (const auto& values : train<float>(ranks, setting).values)
            EXPECT_EQ(values, whole) << merges << ", " << ranks << " ranks, " << bytes << " bytes";
        }
  }
};

TEST_P(ChunksOfDirections, GiveTheBitsOfAllAtOnce) {
  expect_the_bits_of_all_at_once(
      {.shapes = GetParam() == Place::cpu
                     ? awkward_shapes()
                     : std::vector<std::vector<std::int64_t>>{{}, {9, 8}, {20, 3}, {2, 3, 2}},
       .recipes = matrix_recipes(),
       .groups = 4,
       .steps = GetParam() == Place::cpu ? 7 : 4,
       .absent_every = 4});
}

TEST_P(ChunksOfDirections, GiveTheBitsOfAllAtOnceWithMuon) {
  expect_the_bits_of_all_at_once({.shapes = {{9, 8}, {8, 9}, {20, 3}, {9, 8}},
                                  .recipes = {recipes::muon()},
                                  .groups = 2,
                                  .steps = 3});
}

INSTANTIATE_TEST_SUITE_P(Everywhere, ChunksOfDirections, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(ChunksOfDirections, KeepTheirStateWhereAnAddedGroupCutsThemElsewhere) {
  std::vector<std::vector<std::vector<float>>> runs;
  for (const std::int64_t bytes : {1 << 20, 0, 700}) {
    ToyModel<float> model(awkward_shapes());
    const auto backend = cpu_backend({.threads = 2});
    const auto ranks = single_rank_communicator();
    auto groups = model.groups(quick_recipe(), {});
    const ParameterGroup later = groups.back();
    groups.pop_back();
    Optimizer optimizer(*backend, *ranks, groups, {.direction_bytes = bytes});
    for (int step = 0; step < 4; ++step) optimizer.step();
    optimizer.add_group(later);
    const StateDict saved = optimizer.full_state_dict();
    for (int step = 0; step < 3; ++step) optimizer.step();
    optimizer.load_state_dict(saved);
    for (int step = 0; step < 3; ++step) optimizer.step();
    runs.push_back(model.values());
  }
  EXPECT_EQ(runs[1], runs[0]);
  EXPECT_EQ(runs[2], runs[0]);
}

TEST(ChunksOf, AreAsLongAsTheLimitAllowsAndCountFromTheirOwnBeginning) {
  // Two stacks: three blocks of 40 elements, four of 12.
  std::vector<OwnedBlock> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back({.stack = 0, .in_stack = i, .flat = 40 * i});
  for (int i = 0; i < 4; ++i) blocks.push_back({.stack = 1, .in_stack = i, .flat = 120 + 12 * i});
  const auto places = [&](std::int64_t most) {
    std::vector<std::vector<std::array<std::int64_t, 3>>> all;
    for (const auto& chunk : chunks_of(blocks, 168, most)) {
      all.emplace_back();
      for (const OwnedBlock& block : chunk)
        all.back().push_back({block.stack, block.in_stack, block.flat});
    }
    return all;
  };
  EXPECT_EQ(places(168).size(), 1U);
  EXPECT_EQ(places(167).size(), 2U);
  EXPECT_EQ(places(0).size(), blocks.size()) << "one block at a time";
  const decltype(places(0)) expected = {
      {{0, 0, 0}}, {{0, 0, 0}}, {{0, 0, 0}, {1, 0, 40}}, {{0, 0, 0}, {0, 1, 12}, {0, 2, 24}}};
  EXPECT_EQ(places(52), expected);
}

/// 8.4 million parameters, all 0.
struct LargeModel {
  std::vector<std::vector<std::int64_t>> shapes = {{2048, 2048}, {2048, 1024}, {1024, 2048}, {512}};
  std::vector<std::vector<float>> values, gradients;

  LargeModel() {
    for (const auto& shape : shapes) {
      const auto count = static_cast<std::size_t>(grouping::numel(shape));
      values.emplace_back(count);
      gradients.emplace_back(count);
    }
  }
  std::int64_t elements() const {
    std::int64_t sum = 0;
    for (const auto& value : values) sum += std::ssize(value);
    return sum;
  }
  ParameterGroup group(const Recipe& recipe) {
    ParameterGroup group{.recipe = recipe};
    for (std::size_t t = 0; t < shapes.size(); ++t)
      group.parameters.push_back({.name = "tensor" + std::to_string(t),
                                  .shape = shapes[t],
                                  .value = values[t].data(),
                                  .gradient = gradients[t].data()});
    return group;
  }
};

TEST(Workspace, OfAThirdOfTheDirectionsIsAtMostAQuarterOfTheStateBesideTheExchange) {
  for (const Recipe& kind : {Recipe{}, recipes::soap()})
    for (const int ranks : {1, 3})
      run_ranks(ranks, [&](Communicator& communicator) {
        LargeModel model;
        const auto backend = cpu_kernels({.threads = 1});
        Recipe recipe = kind;
        recipe.blocking.size = 64;
        Optimizer optimizer(*backend, communicator, {model.group(recipe)},
                            {.direction_bytes = 4 * model.elements() / ranks / 3});
        // Headers, alignment, and padding for equal lengths.
        const std::int64_t exchange =
            ranks == 1 ? 0 : 104 * 4 * model.elements() / 100 + ranks * 128;
        const std::int64_t rest = optimizer.workspace_bytes() + backend->memory_use().scratch;
        EXPECT_LE(4 * (rest - exchange), optimizer.state_bytes()) << ranks << " ranks";
      });
}

TEST(Workspace, OfAnElementwiseKindOnOneRankIsItsTablesAlone) {
  LargeModel model;
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  for (const Recipe& recipe :
       {recipes::adamw(), recipes::lion(), recipes::schedule_free_adamw(), recipes::sgd()}) {
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    optimizer.step();
    const std::int64_t memory = optimizer.workspace_bytes() + backend->memory_use().scratch;
    EXPECT_LE(100 * memory, optimizer.state_bytes());
  }
}

TEST(Workspace, ShrinksToTheLargestBlock) {
  LargeModel model;
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Recipe recipe;
  recipe.blocking.size = 256;
  const auto bytes_with = [&](std::int64_t direction_bytes) {
    return Optimizer(*backend, *ranks, {model.group(recipe)}, {.direction_bytes = direction_bytes})
        .workspace_bytes();
  };
  const std::int64_t directions = 4 * model.elements();
  const std::int64_t all = bytes_with(directions), some = bytes_with(1 << 20), one = bytes_with(0);
  EXPECT_LT(one, some);
  EXPECT_LT(some, all);
  // One block in place of all; each has tables of its own then, of less than 8 KiB.
  EXPECT_GE(all - one, directions - 4 * 256 * 256 - 129 * 8192);
}

}  // namespace
}  // namespace shampoo::test
