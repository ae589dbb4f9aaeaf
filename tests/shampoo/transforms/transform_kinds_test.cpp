// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/recipes.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/shampoo/transforms/transformed_run.h"

namespace shampoo::test {
namespace {

/// With matrices, bfloat16 values, absent gradients, sides of 1, ranks that own nothing.
class TransformKinds : public ::testing::TestWithParam<Recipe> {
 protected:
  static constexpr int steps = steps_before + steps_after;
  static Trainee trainee() {
    return {.recipes = {GetParam(), quick_recipe()}, .narrow = true, .absent_every = 4};
  }
  static Arrangement on(int ranks, bool merges = true) {
    return {.ranks = ranks,
            .groups = 2,
            .merges = merges,
            .rates = {.learning_rate = 1e-2, .epsilon = 1e-6, .weight_decay = 0.01},
            .run = run_on_cpu};
  }
};

TEST_P(TransformKinds, GiveTheSameBitsMergedUnmergedAndOnAnyNumberOfRanks) {
  const End<float> alone = train_first<float>(trainee(), on(1), steps);
  EXPECT_EQ(train_first<float>(trainee(), on(1, false), steps), alone);
  for (const int ranks : {2, 3, 16})
    EXPECT_EQ(train_first<float>(trainee(), on(ranks), steps), alone) << ranks << " ranks";
  EXPECT_EQ(train_on(train_first<float>(trainee(), on(3)), trainee(), on(2)), alone);
}

Recipe scaled(Recipe recipe, const UpdateScaling& scaling) {
  recipe.update_scaling = scaling;
  return recipe;
}

Recipe whole(Recipe recipe) {
  recipe.blocking.size = 64;
  return recipe;
}

INSTANTIATE_TEST_SUITE_P(All, TransformKinds,
                         testing::Values(scaled(quick_recipe(), UpdateClipping{.limit = 0.3}),
                                         scaled(quick_recipe(), TrustRatio{.coefficient = 0.1}),
                                         scaled(recipes::soap(), TrustRatio{}),
                                         scaled(recipes::adamw(), UpdateClipping{.limit = 0.3}),
                                         scaled(projected(recipes::adamw(), Bounds{}),
                                                TrustRatio{.coefficient = 0.1}),
                                         projected(quick_recipe(), Bounds{-0.5, 1}),
                                         projected(recipes::adamw(), Bounds{}),
                                         projected(whole(quick_recipe()), UnitNorm{}),
                                         projected(whole(recipes::soap()), UnitNorm{})));

}  // namespace
}  // namespace shampoo::test
