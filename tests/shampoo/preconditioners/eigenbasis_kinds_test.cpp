// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

#include "shampoo/validation/rate_ranges.h"
#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

using Gradient = std::function<float(std::int64_t row, std::int64_t column)>;

struct Degenerate {
  std::string name;
  Gradient gradient;
};

std::vector<Degenerate> degenerate_gradients() {
  return {{"zeros", [](auto, auto) { return 0.0F; }},
          {"one entry", [](auto i, auto j) { return i == 1 && j == 2 ? 1.0F : 0.0F; }},
          {"rank one",
           [](auto i, auto j) { return static_cast<float>(i + 1) * static_cast<float>(j - 2); }},
          {"huge", [](auto i, auto j) { return (i + j) % 2 == 0 ? 1e18F : -1e17F; }},
          {"denormal", [](auto i, auto) {
             return static_cast<float>(i) * std::numeric_limits<float>::denorm_min();
           }}};
}

class DegenerateGradients : public ::testing::TestWithParam<Preconditioner> {};

TEST_P(DegenerateGradients, LeaveValuesFiniteAndTheNextOrdinaryStepMovesThem) {
  for (const Degenerate& degenerate : degenerate_gradients()) {
    ToyModel<float> model({{9, 5}, {7}, {3, 4, 2}});
    Recipe recipe = quick_recipe();
    recipe.preconditioner = GetParam();
    recipe.refresh = {.every = 2, .first = 1};
    recipe.grafting = std::nullopt;
    const auto backend = cpu_backend({.threads = 1});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    for (auto& tensor : model.tensors)
      for (std::size_t e = 0; e < tensor.gradient.size(); ++e)
        tensor.gradient[e] =
            degenerate.gradient(static_cast<std::int64_t>(e / 5), static_cast<std::int64_t>(e % 5));
    model.send_gradients();
    for (int step = 0; step < 5; ++step) optimizer.step();

    EXPECT_EQ(optimizer.statistics().kept_roots, 0) << degenerate.name;
    const auto before = model.values();
    for (const auto& values : before)
      for (const float value : values) ASSERT_TRUE(std::isfinite(value)) << degenerate.name;
    model.new_gradients();
    optimizer.step();
    EXPECT_NE(model.values(), before) << degenerate.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DegenerateGradients,
    testing::Values(Eigendecomposed{}, Eigendecomposed{.solver = Qr{}}, KullbackLeibler{},
                    KullbackLeibler{.form = Eigendecomposed{}}, EigenvalueCorrected{},
                    EigenvalueCorrected{.solver = Qr{}},
                    EigenvalueCorrected{.solver = Eigh{.tolerance = 0.1}},
                    EigenvalueCorrected{.exponents = {{.order = 2, .value = 0.3}}}),
    [](const auto& tested) {
      const auto name = [](const auto& kind) { return std::string(kind.name); };
      return std::visit(name, tested.param) + "_" + std::to_string(tested.index);
    });

/// A basis that the tolerance lets pass keeps its bits; one that it does not is decomposed anew.
TEST(ToleratedBases, AreKeptUpToTheTolerance) {
  for (const double tolerance : {0.0, 1.0}) {
    ToyModel<float> model({{6, 5}});
    Recipe recipe = quick_recipe();
    recipe.preconditioner = EigenvalueCorrected{.solver = Eigh{.tolerance = tolerance}};
    recipe.grafting = std::nullopt;
    const auto backend = cpu_backend({.threads = 1});
    const auto ranks = single_rank_communicator();
    Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
    const auto basis = [&] {
      const SlotView view = optimizer.slot("tensor0", 0, "basis/0");
      return model.bytes_at(view.data, 36 * sizeof(float));
    };
    const auto identity = basis();
    for (int step = 0; step < 3; ++step) optimizer.step();

    EXPECT_EQ(basis() == identity, tolerance == 1);
    EXPECT_EQ(optimizer.statistics().refreshes, 4);
  }
}

TEST(StateOfEigenbases, IsAPackedFactorABasisAndOneSecondMoment) {
  ToyModel<float> model({{6, 5}});
  Recipe recipe = quick_recipe();
  recipe.preconditioner = EigenvalueCorrected{};
  recipe.grafting = std::nullopt;
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const Optimizer optimizer(*backend, *ranks, {model.group(recipe)});

  EXPECT_EQ(optimizer.slot_names("tensor0", 0),
            (std::vector<std::string>{"factor/0", "basis/0", "factor/1", "basis/1",
                                      "corrected_eigenvalues", "filtered_gradient"}));
  EXPECT_TRUE(optimizer.slot("tensor0", 0, "factor/1").packed_triangle);
  // n (n + 1) / 2 + n^2 per factor, and both moments
  EXPECT_EQ(optimizer.state_bytes(), (21 + 36 + 15 + 25 + 30 + 30) * 4);
}

TEST(EigenbasisKinds, ReadEpsilonAloneWithoutRefreshAndGrafting) {
  Recipe recipe{.preconditioner = Eigendecomposed{}, .grafting = std::nullopt};
  recipe.refresh.first = std::nullopt;
  EXPECT_FALSE(RateRanges(recipe).reads("beta2"));
  EXPECT_TRUE(RateRanges(recipe).reads("epsilon"));
}

}  // namespace
}  // namespace shampoo::test
