// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

class BadInput : public ::testing::Test {
 protected:
  /// Builds an optimizer of two groups, of which the second was spoilt, and expects a message that
  /// contains all `words`.
  void expect_refused(const std::function<void(ParameterGroup&)>& spoil,
                      const std::vector<std::string>& words) {
    ToyModel<float> model({{4, 3}, {5}, {6}});
    std::vector<ParameterGroup> groups(2);
    groups[0].parameters.push_back(model.parameter(0));
    groups[1].parameters = {model.parameter(1), model.parameter(2)};
    spoil(groups[1]);
    const auto before = model.values();
    try {
      const Optimizer optimizer(*backend, *ranks, groups);
      ADD_FAILURE() << "accepted what should be refused with " << words.front();
    } catch (const std::invalid_argument& error) {
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << "'" << word << "' is missing in: " << error.what();
    }
    EXPECT_EQ(model.values(), before);
  }

  void expect_rate_refused(double Rates::*rate, const std::string& name,
                           const std::vector<double>& values) {
    for (const double value : values) {
      expect_refused([&](ParameterGroup& group) { group.rates.*rate = value; },
                     {"group 1", name, "must be"});
      expect_live_rate_refused(rate, name, value);
    }
  }

  /// The same rate, turned bad between two steps.
  void expect_live_rate_refused(double Rates::*rate, const std::string& name, double value) {
    ToyModel<float> model({{4, 3}});
    Optimizer optimizer(*backend, *ranks, {model.group()});
    optimizer.step();
    const auto before = model.values();
    const double good = std::exchange(optimizer.group(0).rates.*rate, value);
    try {
      optimizer.step();
      ADD_FAILURE() << name << " = " << value << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_EQ(model.values(), before);
    optimizer.group(0).rates.*rate = good;
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("tensor0"), 2);
  }

  void expect_recipe_refused(const std::function<void(Recipe&)>& spoil, const std::string& name) {
    expect_refused([&](ParameterGroup& group) { spoil(group.recipe); },
                   {"group 1", name, "must be"});
  }

  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
};

TEST_F(BadInput, RatesOutOfRangeAreNamed) {
  expect_rate_refused(&Rates::learning_rate, "learning_rate", {-1e-3, nan, infinity});
  expect_rate_refused(&Rates::beta1, "beta1", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::beta2, "beta2", {-0.1, 1.1, nan});
  expect_rate_refused(&Rates::epsilon, "epsilon", {0.0, -1e-8, nan, infinity});
  expect_rate_refused(&Rates::weight_decay, "weight_decay", {-0.1, nan, infinity});
  expect_rate_refused(&Rates::grafting_beta2, "grafting_beta2", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::grafting_epsilon, "grafting_epsilon", {0.0, -1.0, nan});
  expect_rate_refused(&Rates::momentum, "momentum", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::dampening, "dampening", {-0.1, 1.0, nan});
}

TEST_F(BadInput, RatesOfAveragingsOutOfRangeAreNamed) {
  const auto refused = [&](const Averaging& averaging, double Rates::*rate, double value,
                           const std::string& words) {
    expect_refused(
        [&](ParameterGroup& g) {
          g.recipe.averaging = averaging;
          g.rates.*rate = value;
        },
        {"group 1", words});
  };
  for (const double value : {-0.1, 0.0, 1.1, nan})
    for (const Averaging& averaging : {Averaging(PrimalAveraging{}), Averaging(ScheduleFree{})})
      refused(averaging, &Rates::train_interpolation, value,
              "train_interpolation must be in (0, 1]");
  for (const double value : {-0.1, 1.0, nan})
    refused(PrimalAveraging{}, &Rates::evaluation_interpolation, value,
            "evaluation_interpolation must be in [0, 1)");
  refused(ScheduleFree{}, &Rates::evaluation_interpolation, 0.5,
          "evaluation_interpolation must be 0.9, its default");
  refused(NoAveraging{}, &Rates::train_interpolation, 0.5,
          "train_interpolation must be 0.8, its default");
  refused(PrimalAveraging{}, &Rates::momentum, 0.5, "momentum must be 0, its default");
  for (const double power : {-1.0, nan, infinity})
    refused(ScheduleFree{.power = power}, &Rates::weight_decay, 0,
            "recipe.averaging.power must be in [0, inf)");
}

TEST_F(BadInput, OptionalRatesOutOfRangeAreNamed) {
  for (const double value : {-0.1, 1.0, nan})
    expect_refused([&](ParameterGroup& g) { g.rates.beta3 = value; }, {"group 1", "beta3"});
  for (const double value : {-1.0, 0.0, nan, infinity})
    expect_refused(
        [&](ParameterGroup& g) {
          g.recipe.weight_decay = WeightDecay::corrected;
          g.rates.peak_learning_rate = value;
        },
        {"group 1", "peak_learning_rate", "in (0, inf)"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe.weight_decay = WeightDecay::corrected;
        g.rates.learning_rate = 0;
      },
      {"group 1", "peak_learning_rate"});
}

TEST_F(BadInput, RatesThatTheRecipeDoesNotReadKeepTheirDefaults) {
  expect_refused([](ParameterGroup& g) { g.rates.momentum = 0.9; },
                 {"group 1", "momentum", "must be 0, its default", "got 0.9"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe = recipes::adamw();
        g.rates.grafting_beta2 = 0.95;
      },
      {"group 1", "grafting_beta2", "must be 0.999", "set beta2 instead"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe.refresh.first = std::nullopt;
        g.rates.epsilon = 1e-6;
      },
      {"group 1", "epsilon", "set grafting_epsilon instead"});
  expect_refused([](ParameterGroup& g) { g.rates.peak_learning_rate = 1e-3; },
                 {"group 1", "peak_learning_rate", "must be unset", "got 0.001"});
}

TEST_F(BadInput, GraftingDiffersFromThePreconditioner) {
  expect_recipe_refused([](Recipe& r) { r.preconditioner = Adam{}; }, "recipe.grafting");
}

TEST_F(BadInput, RecipeFieldsOutOfRangeAreNamed) {
  const auto solver = [](const Solver& s) {
    return [s](Recipe& r) { std::get<RootInverse>(r.preconditioner).solver = s; };
  };
  const auto exponent = [](const Exponent& e) {
    return [e](Recipe& r) { std::get<RootInverse>(r.preconditioner).exponents = {e}; };
  };
  expect_recipe_refused([](Recipe& r) { r.refresh.every = 0; }, "refresh.every");
  expect_recipe_refused([](Recipe& r) { r.refresh.first = 0; }, "refresh.first");
  expect_recipe_refused([](Recipe& r) { r.blocking.size = 0; }, "blocking.size");
  expect_recipe_refused([](Recipe& r) { r.blocking.target_order = 0; }, "blocking.target_order");
  expect_recipe_refused(solver(Eigen{.relative_floor = 1}), "relative_floor");
  expect_recipe_refused(solver(Eigen{.relative_floor = nan}), "relative_floor");
  expect_recipe_refused(solver(CoupledNewton{.max_iterations = -1}), "max_iterations");
  expect_recipe_refused(solver(CoupledNewton{.tolerance = nan}), "tolerance");
  expect_recipe_refused(solver(CoupledHigherOrder{.order = 1}), "order");
  expect_recipe_refused(solver(CoupledHigherOrder{.absolute_epsilon = 0}), "absolute_epsilon");
  for (const double kappa_max : {9.0, 1.01e7, nan, infinity})
    expect_recipe_refused(solver(Minimax{.kappa_max = kappa_max}), "solver.kappa_max");
  expect_recipe_refused(exponent({.order = -1}), "exponents.order");
  expect_recipe_refused(exponent({.order = 2, .dimension = 2}), "exponents.dimension");
  expect_recipe_refused(exponent({.value = -0.5}), "exponents.value");
  expect_recipe_refused(exponent({.value = nan}), "exponents.value");
  expect_recipe_refused(
      [](Recipe& r) {
        r.preconditioner = RootInverse{.solver = CoupledNewton{}, .exponents = {{.value = 0.75}}};
      },
      "exponents.value");
  for (const double value : {0.3183, 1.5, 5.0 / 7, 1.0 / 65})
    expect_recipe_refused(
        [=](Recipe& r) {
          r.preconditioner = RootInverse{.solver = Minimax{}, .exponents = {{.value = value}}};
        },
        "exponents.value");
  expect_recipe_refused(
      [](Recipe& r) {
        r.arithmetic = Arithmetic::float64;
        std::get<RootInverse>(r.preconditioner).solver = Minimax{.kappa_max = 1.01e12};
      },
      "solver.kappa_max");
  expect_recipe_refused(
      [](Recipe& r) { std::get<RootInverse>(r.preconditioner).trace_scaling = 1.5; },
      "trace_scaling");
  expect_recipe_refused(
      [](Recipe& r) { std::get<RootInverse>(r.preconditioner).tolerated_failures = -1; },
      "tolerated_failures");
}

TEST_F(BadInput, APseudoInverseNeedsEpsilonZero) {
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe.preconditioner = RootInverse{.solver = Eigen{.pseudo_inverse = PseudoInverse{}}};
      },
      {"group 1", "epsilon", "0"});
}

TEST_F(BadInput, ParametersAreNamed) {
  using Group = ParameterGroup;
  expect_refused([](Group& g) { g.parameters.clear(); }, {"group 1", "parameters"});
  expect_refused([](Group& g) { g.parameters[1].name.clear(); }, {"group 1", "name", "empty"});
  expect_refused([](Group& g) { g.parameters[1].name = "tensor0"; }, {"tensor0", "unique"});
  expect_refused([](Group& g) { g.parameters[1].value.data = nullptr; }, {"tensor2", "value"});
  expect_refused([](Group& g) { g.parameters[1].shape = {-6}; }, {"tensor2", "shape", "-6"});
  expect_refused(
      [](Group& g) {
        g.parameters[1].shape = {1LL << 40, 1LL << 40};
      },
      {"tensor2", "shape", "2^63"});
  expect_refused([](Group& g) { g.parameters[1].box = Box{{1}, {5}}; }, {"tensor2", "box"});
  expect_refused([](Group& g) { g.parameters[1].value.strides = {1, 1}; }, {"tensor2", "strides"});
  expect_refused([](Group& g) { g.parameters[1].value.strides = {-1}; }, {"tensor2", "strides"});
  expect_refused([](Group& g) { g.parameters[1].gradient.strides = {1LL << 62}; },
                 {"tensor2", "gradient.strides"});
}

TEST_F(BadInput, ASideTooLongForAFactorIsNamed) {
  std::vector<float> value(40'000);
  ParameterGroup group;
  group.parameters.push_back({.name = "bias", .shape = {40'000}, .value = value.data()});
  group.recipe.blocking.size = grouping::never_cut;
  try {
    const Optimizer optimizer(*backend, *ranks, {group});
    FAIL() << "a factor of 40000 x 40000 was accepted";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("bias"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("blocking.size"), std::string::npos) << error.what();
  }
  group.recipe = recipes::adamw();
  EXPECT_TRUE(Optimizer(*backend, *ranks, {group}).step().applied());
}

TEST_F(BadInput, OverlappingMemoryIsNamed) {
  using Group = ParameterGroup;
  expect_refused([](Group& g) { g.parameters[1].value = g.parameters[0].value; },
                 {"tensor1", "tensor2", "overlap"});
  expect_refused([](Group& g) { g.parameters[1].gradient = g.parameters[0].value; },
                 {"tensor2", "gradient", "overlap"});
  expect_refused([](Group& g) { g.parameters[1].value.strides = {0}; }, {"tensor2", "overlap"});
  expect_refused(
      [](Group& g) {
        g.parameters[0].value.data = static_cast<char*>(g.parameters[0].value.data) + 1;
      },
      {"tensor1", "aligned"});
}

TEST_F(BadInput, AColumnOfAMatrixDoesNotOverlapItsNeighbour) {
  std::vector<float> matrix(12), gradient(12);
  ParameterGroup group;
  for (int column = 0; column < 3; ++column)
    group.parameters.push_back({.name = "column" + std::to_string(column),
                                .shape = {4},
                                .value = Tensor(matrix.data() + column, Type::float32, {3}),
                                .gradient = Tensor(gradient.data(), Type::float32)});

  Optimizer optimizer(*backend, *ranks, {group});

  EXPECT_TRUE(optimizer.step().applied());
}

TEST_F(BadInput, AChangedGradientIsCheckedWhenItIsChanged) {
  ToyModel<float> model({{4, 3}, {5}});
  Optimizer optimizer(*backend, *ranks, {model.group()});

  EXPECT_THROW(optimizer.group(0).set_gradient(0, model.tensors[1].value.data()),
               std::invalid_argument);
  EXPECT_THROW(optimizer.group(0).set_gradient(2, nullptr), std::out_of_range);

  EXPECT_EQ(optimizer.group(0).parameters()[0].gradient.data, model.tensors[0].gradient.data());
  EXPECT_TRUE(optimizer.step().applied());
}

TEST_F(BadInput, AGroupThatCannotBeAddedChangesNothing) {
  ToyModel<float> model({{4, 3}, {5}});
  ParameterGroup first;
  first.parameters.push_back(model.parameter(0));
  Optimizer optimizer(*backend, *ranks, {first});

  EXPECT_THROW(optimizer.add_group(first), std::invalid_argument);

  EXPECT_EQ(optimizer.group_count(), 1);
  EXPECT_TRUE(optimizer.step().applied());
}

TEST_F(BadInput, OptionsAndEmptyListsAreRefused) {
  ToyModel<float> model({std::vector<std::int64_t>{4}});
  EXPECT_THROW(Optimizer(*backend, *ranks, {}), std::invalid_argument);
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group()}, {.skipped_in_a_row = 0}),
               std::invalid_argument);
  const auto elsewhere = single_rank_communicator(MemoryKind::cuda);
  EXPECT_THROW(Optimizer(*backend, *elsewhere, {model.group()}), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
