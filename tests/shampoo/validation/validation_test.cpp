// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/validation/bad_input.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

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

TEST_F(BadInput, TheFieldOfAKindIsNamedWithItsPath) {
  expect_recipe_refused(
      [](Recipe& r) {
        r.preconditioner = KullbackLeibler{.form = Eigendecomposed{.solver = Eigh{.tolerance = 2}}};
      },
      "recipe.preconditioner.form.solver.tolerance must be");
  expect_recipe_refused([](Recipe& r) { r.grafting = AdaGrad{.initial_accumulator = -1}; },
                        "recipe.grafting.initial_accumulator must be");
}

TEST_F(BadInput, AnEnumeratorThatIsNoneIsNamedWithThoseThatThereAre) {
  const auto refused = [&](const std::function<void(Recipe&)>& spoil, const std::string& message) {
    expect_refused([&](ParameterGroup& group) { spoil(group.recipe); }, {"group 1: " + message});
  };
  refused([](Recipe& r) { r.arithmetic = static_cast<Arithmetic>(9); },
          "recipe.arithmetic: must be one of float32, float64, got '9'");
  refused([](Recipe& r) { r.weight_decay = static_cast<WeightDecay>(9); },
          "recipe.weight_decay: must be one of decoupled, l2, corrected, independent, plain, got "
          "'9'");
  refused([](Recipe& r) { r.communication.type = static_cast<Type>(77); },
          "recipe.communication.type: must be none or one of float64, float32, bfloat16, float16, "
          "got '77'");
  refused(
      [](Recipe& r) {
        r.preconditioner =
            RootInverse{.solver = Minimax{.precision = static_cast<MinimaxPrecision>(2)}};
      },
      "recipe.preconditioner.solver.precision: must be one of mixed, accurate, got '2'");

  ToyModel<float> model({{4, 3}});
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              Optimizer(*backend, *ranks, {model.group()},
                        {.non_finite = static_cast<NonFinite>(9)});
            }),
            "options: non_finite must be one of skip, error, ignore, got 9");
  Optimizer optimizer(*backend, *ranks, {model.group()});
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              AsyncCheckpointer(optimizer, {.while_saving = static_cast<WhileSaving>(9)});
            }),
            "AsyncCheckpointer: while_saving must be one of refuse, skip, queue, got 9");
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
  expect_refused([](Group& g) { g.parameters[1].name = std::string(32769, 'w'); },
                 {"group 1", "name: must have at most 32768 bytes, got 32769"});
  expect_refused([](Group& g) { g.parameters[1].value.data = nullptr; }, {"tensor2", "value"});
  expect_refused([](Group& g) { g.parameters[1].shape = {-6}; }, {"tensor2", "shape", "-6"});
  expect_refused([](Group& g) { g.parameters[1].box = Box{{1}, {5}}; }, {"tensor2", "box"});
  expect_refused([](Group& g) { g.parameters[1].value.strides = {1, 1}; }, {"tensor2", "strides"});
  expect_refused([](Group& g) { g.parameters[1].value.strides = {-1}; }, {"tensor2", "strides"});
  expect_refused([](Group& g) { g.parameters[1].gradient.strides = {1LL << 62}; },
                 {"tensor2", "gradient.strides"});
  for (const std::int64_t side : std::vector<std::int64_t>{
           1LL << 40, 1LL << 50, (1LL << 60) - 1, std::numeric_limits<std::int64_t>::max()}) {
    expect_refused([&](Group& g) { g.parameters[1].shape = {side}; }, {"tensor2", "shape", "2^40"});
    expect_refused(
        [&](Group& g) {
          g.parameters[1].shape = {side, side};
        },
        {"tensor2", "shape", "2^40"});
  }
  expect_refused(
      [](Group& g) {
        g.parameters[1].shape = {1LL << 39};
        g.parameters[1].value.strides = {0};
      },
      {"tensor2", "value.strides", "share memory"});
}

TEST_F(BadInput, ASideTooLongForAFactorIsNamed) {
  std::vector<float> value(40'000), gradient(40'000);
  ParameterGroup group;
  group.parameters.push_back(
      {.name = "bias", .shape = {40'000}, .value = value.data(), .gradient = gradient.data()});
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
  expect_refused([](Group& g) { g.parameters[1].value.strides = {0}; },
                 {"tensor2", "value.strides", "share memory"});
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

TEST_F(BadInput, AGradientOfAnotherTypeOrInOtherStridesIsRefused) {
  ToyModel<float> model({{4, 3}, {1, 5}});
  Optimizer optimizer(*backend, *ranks, {model.group()});
  Group& group = optimizer.group(0);
  std::vector<float> other(12, 1);
  const auto error = [&](std::string_view name, const Tensor& gradient) {
    return error_of<std::invalid_argument>([&] { group.set_gradient(name, gradient); });
  };

  const std::string strides = error("tensor0", Tensor(other.data(), Type::float32, {1, 4}));
  EXPECT_NE(
      strides.find("parameter 'tensor0': gradient.strides: must be those of the registration, "
                   "(3, 1), got (1, 4)"),
      std::string::npos)
      << strides;
  const std::string type = error("tensor0", Tensor(other.data(), Type::bfloat16));
  EXPECT_NE(type.find("must be that of the registration, float32, got bfloat16"), std::string::npos)
      << type;
  EXPECT_EQ(group.parameters()[0].gradient.data, model.tensors[0].gradient.data());

  group.set_gradient("tensor0", other.data());
  group.set_gradient(1, Tensor(other.data(), Type::float32, {77, 1}));  // a side of 1
  EXPECT_TRUE(optimizer.step().applied());
  EXPECT_EQ(group.parameters()[0].gradient.data, other.data());
}

TEST_F(BadInput, AnIndexOrANameThatIsNotThereIsNamed) {
  ToyModel<float> model({{4, 3}, {5}});
  Optimizer optimizer(*backend, *ranks, {model.group()});
  const auto error = [](const auto& body) { return error_of<std::out_of_range>(body); };
  EXPECT_EQ(error([&] { optimizer.group(3); }),
            "optimizer: there is no group 3 (it has 1, counted from 0)");
  EXPECT_EQ(error([&] { optimizer.group(-1); }),
            "optimizer: there is no group -1 (it has 1, counted from 0)");
  EXPECT_EQ(error([&] { optimizer.group(0).set_gradient(99, nullptr); }),
            "group 0: there is no parameter 99 (it has 2, counted from 0)");
  EXPECT_EQ(error([&] { optimizer.group(0).set_gradient("w", Tensor()); }),
            "group 0: there is no parameter 'w'");
}

TEST_F(BadInput, ATensorWhoseElementsShareMemoryIsNotSaidToOverlapAnother) {
  ToyModel<float> model({{4, 3}});
  ParameterGroup group = model.group();
  group.parameters[0].value.strides = {1, 1};
  const std::string error =
      error_of<std::invalid_argument>([&] { Optimizer optimizer(*backend, *ranks, {group}); });
  EXPECT_NE(error.find("'tensor0': value.strides: elements of the tensor share memory"),
            std::string::npos)
      << error;
}

TEST_F(BadInput, AStepWithoutAnyGradientIsAnErrorUntilThereWasOne) {
  ToyModel<float> model({{4, 3}, {5}, {0, 2}});
  ParameterGroup group = model.group();
  for (Parameter& parameter : group.parameters) parameter.gradient.data = nullptr;
  Optimizer optimizer(*backend, *ranks, {group});
  const std::string error = error_of<std::invalid_argument>([&] { optimizer.step(); });
  EXPECT_NE(error.find("no parameter has a gradient"), std::string::npos) << error;

  optimizer.group(0).set_gradient(1, model.tensors[1].gradient.data());
  EXPECT_EQ(optimizer.step().absent_gradients(), 1);
  optimizer.group(0).set_gradient(1, nullptr);
  EXPECT_EQ(optimizer.step().absent_gradients(), 2);
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
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group()}, {.direction_bytes = -1}),
               std::invalid_argument);
  EXPECT_THROW(Optimizer(*backend, *ranks, {model.group()}, {.skipped_in_a_row = 0}),
               std::invalid_argument);
  const auto elsewhere = single_rank_communicator(MemoryKind::cuda);
  EXPECT_THROW(Optimizer(*backend, *elsewhere, {model.group()}), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
