// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "tests/shampoo/update/ranks_run.h"

namespace shampoo::test {
namespace {

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

}  // namespace
}  // namespace shampoo::test
