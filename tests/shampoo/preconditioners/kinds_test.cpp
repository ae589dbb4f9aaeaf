// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/preconditioners/all_kinds.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

/// What every kind of preconditioner has to hold, with bfloat16 values, absent gradients, scalars,
/// sides of 1 and ranks that own nothing.
class Kinds : public ::testing::TestWithParam<Preconditioner> {
 protected:
  Trainee trainee() const {
    Recipe recipe = quick_recipe();
    recipe.preconditioner = GetParam();
    recipe.grafting = std::nullopt;
    recipe.averaging = Momentum{};
    if (takes_matrices_only(GetParam())) return beside_adam(recipe);
    return {.recipes = {recipe}, .narrow = true, .absent_every = 4};
  }

  /// For a kind that takes matrices alone: every third tensor is one, others go to Adam.
  static Trainee beside_adam(const Recipe& recipe) {
    Recipe adam = recipe;
    adam.preconditioner = Adam{};
    Trainee trainee{.recipes = {recipe, adam, adam}, .narrow = true, .absent_every = 4};
    trainee.shapes = {{9, 8},    {},           {1},         {8, 9}, {13}, {1, 7},   {20, 3},
                      {3, 4, 5}, {2, 3, 2, 4}, {17, 1, 16}, {5},    {0},  {2, 3, 2}};
    return trainee;
  }

  static constexpr int steps = steps_before + steps_after;
};

TEST_P(Kinds, GiveTheSameBitsMergedUnmergedAndOnAnyNumberOfRanks) {
  const End<float> alone = train_first<float>(trainee(), {.groups = 3}, steps);
  const Trainee fresh = trainee();
  EXPECT_NE(alone.values, train_first<float>(fresh, {.groups = 3}, 0).values) << "trained";
  EXPECT_EQ(train_first<float>(fresh, {.groups = 3, .merges = false}, steps), alone);
  for (const int ranks : {2, 3, 16})
    EXPECT_EQ(train_first<float>(fresh, {.ranks = ranks, .groups = 3}, steps), alone)
        << ranks << " ranks";
}

TEST_P(Kinds, GoOnFromASavedStateOnAnotherNumberOfRanks) {
  const Arrangement three{.ranks = 3, .groups = 3}, two{.ranks = 2, .groups = 3};
  const End<float> undisturbed = train_first<float>(trainee(), {.groups = 3}, steps);
  EXPECT_EQ(train_on(train_first<float>(trainee(), three), trainee(), two), undisturbed);
}

/// Values after steps with the same gradients, or with their negatives.
std::vector<std::vector<float>> trained(const Recipe& recipe, bool negated) {
  ToyModel<float> model({{9, 5}, {8, 9}, {70, 33}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
  for (int step = 0; step < 6; ++step) {
    model.new_gradients();
    if (negated)
      for (auto& tensor : model.tensors)
        for (float& element : tensor.gradient) element = -element;
    model.send_gradients();
    optimizer.step();
  }
  return model.values();
}

TEST_P(Kinds, MaximizeAsTheyMinimizeWithTheNegatedGradient) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = GetParam();
  recipe.grafting = std::nullopt;
  const auto negated = trained(recipe, true);
  EXPECT_NE(trained(recipe, false), negated);
  recipe.maximize = true;
  EXPECT_EQ(trained(recipe, false), negated);
}

INSTANTIATE_TEST_SUITE_P(Of, Kinds, testing::ValuesIn(all_kinds()), name_of_kind);

TEST(Vectors, WithoutFactorsTakeTheStepsOfTheGrafting) {
  const std::vector<Preconditioner> kinds{
      RootInverse{.precondition_1d = false},
      Eigendecomposed{.precondition_1d = false},
      KullbackLeibler{.form = RootInverse{.precondition_1d = false}},
  };
  Recipe adam = quick_recipe();
  adam.preconditioner = Adam{};
  adam.grafting = std::nullopt;
  for (const Preconditioner& kind : kinds) {
    Recipe recipe = quick_recipe();
    recipe.preconditioner = kind;
    ToyModel<float> model({{13}, {1, 7, 1}, {9, 8}}), by_adam({{13}, {1, 7, 1}, {9, 8}});
    const auto backend = cpu_backend({.threads = 1});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    Optimizer other(*backend, *ranks, {by_adam.group(adam)});
    for (int step = 0; step < 6; ++step) {
      model.new_gradients();
      by_adam.new_gradients();
      optimizer.step();
      other.step();
    }
    const auto values = model.values(), expected = by_adam.values();
    EXPECT_EQ(values[0], expected[0]);
    EXPECT_EQ(values[1], expected[1]);
    EXPECT_NE(values[2], expected[2]) << "matrices are preconditioned";
    EXPECT_EQ(optimizer.slot_names("tensor1", 0),
              (std::vector<std::string>{"filtered_gradient", "grafting"}));
  }
}

}  // namespace
}  // namespace shampoo::test
