// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "shampoo/recipes.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/shampoo/transforms/transformed_run.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class Projections : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

TEST_P(Projections, PutTheValuesOfAStepBackIntoBounds) {
  for (Recipe recipe : {recipes::adamw(), quick_recipe(), plain_descent()}) {
    TransformedRun<float> run{projected(recipe, NoProjection{})};
    auto expected = run.at(GetParam(), 1);
    for (auto& tensor : expected)
      for (float& w : tensor) w = std::clamp(w, -0.5f, 0.25f);
    run.recipe.projection = Bounds{-0.5, 0.25};
    for (const int ranks : {1, 3}) EXPECT_EQ(run.at(GetParam(), ranks), expected) << ranks;

    run.steps = 5;
    run.recipe.projection = Bounds{};
    for (const auto& tensor : run.at(GetParam(), 3))
      for (const float w : tensor) EXPECT_GE(w, 0);
  }
}

TEST_P(Projections, ToUnitNormDivideByTheNormOfTheParameter) {
  for (Recipe recipe : {recipes::adamw(), quick_recipe(), plain_descent()}) {
    recipe.blocking.size = 64;
    TransformedRun<float> run{projected(recipe, NoProjection{})};
    const auto plain = run.at(GetParam(), 1);
    run.recipe.projection = UnitNorm{};
    for (const int ranks : {1, 3}) {
      const auto found = run.at(GetParam(), ranks);
      for (std::size_t t = 0; t < plain.size(); ++t)
        for (std::size_t i = 0; i < plain[t].size(); ++i) {
          const double expected = plain[t][i] / norm_of(plain[t]);
          // 1 / |W|, and the product, are rounded to float32.
          EXPECT_NEAR(found[t][i], expected, 3 * 0x1p-24 * std::abs(expected)) << t;
        }
    }
  }
}

TEST_P(Projections, ToUnitNormLeaveZerosAlone) {
  run_ranks_at(GetParam(), 1, [](Communicator& communicator, kernels::Backend& backend) {
    ToyModel<double> model({{4}}, 1, &backend);
    std::ranges::fill(model.tensors[0].value, 0.0);
    std::ranges::fill(model.tensors[0].gradient, 0.0);
    model.send_values();
    model.send_gradients();
    Optimizer optimizer(backend, communicator,
                        {model.group(projected(plain_descent(), UnitNorm{}))});
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(model.values()[0], model.tensors[0].value);
  });
}

TEST_P(Projections, ComeBeforeTheAverageOfValues) {
  run_ranks_at(GetParam(), 3, [](Communicator& communicator, kernels::Backend& backend) {
    ToyModel<float> model(awkward_shapes(), 1, &backend);
    Recipe recipe = projected(quick_recipe(), Bounds{-0.5, 0.25});
    recipe.value_averaging = ExponentialAverage{.decay = 0};
    Optimizer optimizer(backend, communicator, {model.group(recipe, {.learning_rate = 0.5})});
    (void)optimizer.step().applied();
    const auto trained = model.values();
    Evaluation evaluation = optimizer.evaluate();
    EXPECT_EQ(model.values(), trained);
    evaluation.end();
    EXPECT_NE(trained, ToyModel<float>(awkward_shapes()).values());
  });
}

INSTANTIATE_TEST_SUITE_P(Places, Projections, testing::Values(Place::cpu, Place::emulated),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(Projection, OfValuesInBfloat16KeepsTheMasterInBoundsAndSendsItRounded) {
  Trainee trainee{.recipes = {projected(quick_recipe(), Bounds{-0.5, 0.25})}, .narrow = true};
  const End<float> end = train_first<float>(
      trainee, {.ranks = 3, .rates = {.learning_rate = 0.25}, .run = run_on_cpu}, 4);
  int at_bounds = 0;
  for (const auto& tensor : end.values.second)
    for (const std::uint16_t bits : tensor) {
      const float w = std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
      EXPECT_GE(w, -0.5f);
      EXPECT_LE(w, 0.25f);
      at_bounds += w == -0.5f || w == 0.25f;
    }
  EXPECT_GT(at_bounds, 0);
}

TEST(Projection, NamesWhatItCannotDo) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto refusal = [&](const Recipe& recipe) {
    ToyModel<float> model({{40, 3}});
    return error_of<std::invalid_argument>(
        [&] { Optimizer(*backend, *ranks, {model.group(recipe)}); });
  };
  EXPECT_EQ(refusal({.projection = Bounds{}}),
            "group 0: recipe.communication.values must be true with a projection, which sends new "
            "values, got false");
  EXPECT_EQ(refusal(projected({}, Bounds{.lower = 1, .upper = 0.5})),
            "group 0: recipe.projection.upper must be at least recipe.projection.lower, or none, "
            "got 0.5");
  EXPECT_EQ(refusal(projected({}, Bounds{.lower = std::nan("")})),
            "group 0: recipe.projection.lower must be a number, or none, got nan");
  EXPECT_EQ(refusal(projected({.averaging = ScheduleFree{}}, UnitNorm{})),
            "group 0: recipe.projection must be none with an averaging of iterates, whose steps it "
            "would not reach, got unit_norm");
  EXPECT_EQ(refusal(projected({.value_averaging = Lookahead{}}, Bounds{})),
            "group 0: recipe.projection must be none with lookahead, which replaces projected "
            "values, got bounds");
  EXPECT_EQ(refusal(projected({.blocking = {.size = 16}}, UnitNorm{})),
            "group 0, parameter 'tensor0': recipe.projection: unit_norm needs a parameter in one "
            "block, but it is cut into 3; see recipe.blocking.size");
  EXPECT_EQ(refusal(projected({}, Bounds{.lower = std::nullopt, .upper = 3})), "");
}

TEST(Projection, NamesBoundsThatTheTypeOfAValueDoesNotReach) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto refusal = [&](Type type, const Bounds& bounds) {
    ToyModel<double> model({{40, 3}});
    Recipe recipe = projected(quick_recipe(), bounds);
    if (type == Type::float64) recipe.arithmetic = Arithmetic::float64;
    ParameterGroup group = model.group(recipe);
    group.parameters[0].value.type = type;
    return error_of<std::invalid_argument>([&] { Optimizer(*backend, *ranks, {group}); });
  };
  const std::string start = "group 0, parameter 'tensor0': recipe.projection.";
  EXPECT_EQ(refusal(Type::float16, {.lower = 70000}),
            start + "lower must be at most 65504, the largest float16, or none, got 70000");
  EXPECT_EQ(refusal(Type::float16, {.lower = std::nullopt, .upper = -65505}),
            start + "upper must be at least -65504, the least float16, or none, got -65505");
  for (const auto& [type, beyond] :
       {std::pair(Type::float32, 1e39), {Type::bfloat16, 0x1.fe8p127}}) {
    expect_says(refusal(type, {.lower = beyond}), {start + "lower must be at most ", "got "});
    expect_says(refusal(type, {.lower = std::nullopt, .upper = -beyond}), {start + "upper"});
    EXPECT_EQ(refusal(type, {.upper = beyond}), "");
  }
  EXPECT_EQ(refusal(Type::float64, {.lower = 1e39}), "");
  EXPECT_EQ(refusal(Type::float16, {.lower = 65504, .upper = HUGE_VAL}), "");
  EXPECT_EQ(refusal(Type::float16, {.lower = -HUGE_VAL, .upper = -65504}), "");
}

}  // namespace
}  // namespace shampoo::test
