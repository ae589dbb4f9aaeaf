// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <numeric>

#include "distributor/communicator.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/device/ranks_at.h"
#include "tests/support/read_rates.h"

namespace shampoo::test {
namespace {

/// What one run on some ranks left behind.
template <typename Scalar>
struct Trained {
  std::vector<std::vector<std::vector<Scalar>>> values;  ///< of each rank
  std::int64_t collectives = 0;                          ///< most in a step, on any rank
  std::int64_t received = 0;                             ///< bytes of a step, all ranks together
  std::vector<std::int64_t> state_bytes;                 ///< of each rank
};

struct Setting {
  std::vector<std::vector<std::int64_t>> shapes = awkward_shapes();
  std::vector<Recipe> recipes = {quick_recipe()};  ///< of group g: recipes[g % size]
  int groups = 3;
  int steps = 7;
  bool merges = true;
  int absent_every = 0;  ///< tensor t has no gradient in step s where (s + t) % absent_every == 0
  Place place = Place::cpu;
};

template <typename Scalar>
std::vector<ParameterGroup> groups_of(ToyModel<Scalar>& model, const Setting& setting) {
  std::vector<ParameterGroup> groups(static_cast<std::size_t>(setting.groups));
  for (std::size_t g = 0; g < groups.size(); ++g)
    groups[g] = {.rates = {.learning_rate = 1e-3 * (1 + static_cast<double>(g)),
                           .epsilon = 1e-6,
                           .weight_decay = 0.01 * static_cast<double>(g % 4),
                           .momentum = 0.5},
                 .recipe = setting.recipes[g % setting.recipes.size()]};
  for (ParameterGroup& group : groups) group.rates = read_rates(group.recipe, group.rates);
  for (std::size_t t = 0; t < model.tensors.size(); ++t)
    groups[t % groups.size()].parameters.push_back(model.parameter(t));
  std::erase_if(groups, [](const ParameterGroup& group) { return group.parameters.empty(); });
  return groups;
}

template <typename Scalar>
Trained<Scalar> train(int ranks, const Setting& setting) {
  Trained<Scalar> run;
  run.values.resize(static_cast<std::size_t>(ranks));
  run.state_bytes.resize(static_cast<std::size_t>(ranks));
  std::mutex mutex;
  run_ranks_at(setting.place, ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    ToyModel<Scalar> model(setting.shapes, 1, &backend);
    CountingCommunicator counting(communicator);
    Optimizer optimizer(backend, counting, groups_of(model, setting),
                        {.merge_groups = setting.merges});
    std::int64_t most = 0, received = 0;
    for (int step = 0; step < setting.steps; ++step) {
      for (int g = 0, t = 0; g < optimizer.group_count(); ++g) {
        Group& group = optimizer.group(g);
        for (std::size_t j = 0; j < group.parameters().size(); ++j, ++t) {
          const bool absent = setting.absent_every > 0 && (step + t) % setting.absent_every == 0;
          group.set_gradient(
              j, absent ? nullptr : model.parameter(group.parameters()[j].name).gradient.data);
        }
      }
      const std::int64_t collectives = counting.collectives(), bytes = counting.gathered_bytes();
      optimizer.step();
      most = std::max(most, counting.collectives() - collectives);
      received = counting.gathered_bytes() - bytes;
      model.new_gradients();
    }
    std::vector<std::vector<Scalar>> values = model.values();
    const std::lock_guard lock(mutex);
    const auto rank = static_cast<std::size_t>(communicator.rank());
    run.values[rank] = std::move(values);
    run.state_bytes[rank] = optimizer.state_bytes();
    run.collectives = std::max(run.collectives, most);
    run.received += received;
  });
  return run;
}

/// Few where kernels run on the host, block after block.
std::vector<int> rank_counts(Place place) {
  return place == Place::cpu ? std::vector{2, 3, 4, 8} : std::vector{2, 3};
}

template <typename Scalar>
void expect_equal_on_all_ranks(const Setting& setting) {
  const Trained<Scalar> alone = train<Scalar>(1, setting);
  EXPECT_EQ(alone.collectives, 0);
  const auto untrained = ToyModel<Scalar>(setting.shapes).values();
  EXPECT_EQ(alone.values[0] == untrained, setting.absent_every == 1);
  for (const int ranks : rank_counts(setting.place)) {
    const Trained<Scalar> run = train<Scalar>(ranks, setting);
    for (const auto& values : run.values) EXPECT_EQ(values, alone.values[0]) << ranks << " ranks";
    EXPECT_EQ(run.collectives, 1) << ranks << " ranks";
  }
}

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
  other.refresh.staggered = true;
  Setting setting = here({.recipes = {quick_recipe(), other}, .groups = 5, .absent_every = 4});
  expect_equal_on_all_ranks<float>(setting);
  setting.recipes[1].refresh.staggered = false;  // phases follow the virtual group
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

TEST(Communication, GivesTheSameBitsOnAnyNumberOfRanksInEveryType) {
  for (const std::optional<Type> type :
       {std::optional<Type>(), std::optional(Type::float32), std::optional(Type::bfloat16)}) {
    Recipe recipe = quick_recipe();
    recipe.communication.type = type;
    expect_equal_on_all_ranks<float>({.recipes = {recipe}});
    expect_equal_on_all_ranks<double>({.recipes = {recipe}});
  }
}

TEST(Communication, OfValuesGivesTheBitsOfUpdatesWhereBothAreExact) {
  // In float32 throughout, W + U is the same sum at the owner and at the receiver.
  Recipe recipe = quick_recipe();
  const Trained<float> updates = train<float>(2, {.recipes = {recipe}});
  recipe.communication.values = true;
  const Trained<float> values = train<float>(3, {.recipes = {recipe}});
  EXPECT_EQ(values.values[1], updates.values[1]);
}

TEST(Communication, InBfloat16HalvesTheBytesAndRoundsTheUpdates) {
  Recipe recipe = quick_recipe();
  const Trained<float> own = train<float>(2, {.recipes = {recipe}});
  recipe.communication.type = Type::bfloat16;
  const Trained<float> narrow = train<float>(2, {.recipes = {recipe}});

  EXPECT_NE(narrow.values[0], own.values[0]);
  EXPECT_LT(narrow.received, own.received * 2 / 3);  // headers and alignment do not shrink
}

TEST(Communication, RefusesValuesInANarrowerTypeAndOtherTypes) {
  ToyModel<float> model({{3, 2}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Recipe recipe = quick_recipe();
  recipe.communication = {.type = Type::bfloat16, .values = true};
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group(recipe)}), std::invalid_argument);
  recipe.communication = {.type = Type::float64};
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group(recipe)}), std::invalid_argument);
}

TEST(Communication, RefusesFloat64ValuesThatFloat32ArithmeticWouldRound) {
  ToyModel<double> model({{3, 2}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Recipe recipe = quick_recipe();
  recipe.arithmetic = Arithmetic::float32;
  recipe.communication = {.values = true};
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group(recipe)}), std::invalid_argument);
  recipe.arithmetic = Arithmetic::float64;
  Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
  EXPECT_TRUE(optimizer.step().applied());
}

/// Values of 16 bits, along with float32 ones, after a few steps; of each rank.
std::vector<std::vector<std::uint16_t>> train_narrow(int ranks, Type type,
                                                     const Communication& communication) {
  std::vector<std::vector<std::uint16_t>> values(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](Communicator& threads) {
    ToyModel<float> model(awkward_shapes());
    std::vector<std::uint16_t>& narrow = values[static_cast<std::size_t>(threads.rank())];
    narrow.assign(1000, 0x3c00);  // 1 in float16, a small number in bfloat16
    const auto backend = cpu_backend({.threads = 1});
    Recipe recipe = quick_recipe();
    recipe.communication = communication;
    ParameterGroup group = model.group(recipe, {.learning_rate = 0.01});
    std::size_t used = 0;
    for (std::size_t t = 0; t < group.parameters.size(); t += 2) {
      group.parameters[t].value = Tensor(narrow.data() + used, type);
      used += model.tensors[t].value.size();
    }
    Optimizer optimizer(*backend, threads, {group});
    for (int step = 0; step < 6; ++step) {
      optimizer.step();
      model.new_gradients();
    }
  });
  return values;
}

TEST(ManyRanks, GiveTheBitsOfOneWithValuesOf16BitsInEveryWireType) {
  for (const Type type : {Type::bfloat16, Type::float16})
    for (const std::optional<Type> wire_type :
         {std::optional<Type>(), std::optional(Type::float32), std::optional(Type::bfloat16)}) {
      const auto alone = train_narrow(1, type, {.type = wire_type});
      EXPECT_NE(alone[0][0], 0x3c00) << "trained";
      for (const int ranks : {2, 3, 8})
        for (const auto& values : train_narrow(ranks, type, {.type = wire_type}))
          EXPECT_EQ(values, alone[0]) << ranks << " ranks";
    }
}

TEST(Communication, OfFloat32ForValuesOf16BitsIsRoundedByTheReceiverToTheSameBits) {
  EXPECT_EQ(train_narrow(2, Type::bfloat16, {.type = Type::float32}),
            train_narrow(2, Type::bfloat16, {}));
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
      // Every rank receives the segments of the others: (R - 1) / R of all updates on average, and
      // a header and at most 63 bytes of alignment with each.
      EXPECT_GE(run.received, (ranks - 1) * updates);
      EXPECT_LE(run.received, (ranks - 1) * (updates + ranks * (64 + 63)));
    }
}

}  // namespace
}  // namespace shampoo::test
