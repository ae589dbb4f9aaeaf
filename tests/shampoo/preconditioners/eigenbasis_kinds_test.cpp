// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

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
    recipe.refresh = {.every = 3, .first = 2, .staggered = false};
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

/// A refresh may leave the identity: of zeros, where a tolerance lets it pass, of a side of 1. A
/// load between two refreshes keeps it.
TEST(BasesThatARefreshLeftTheIdentity, GoOnFromAStateDictWithTheSameBits) {
  struct Case {
    const char* name;
    double tolerance;
    int zeros;  ///< steps with gradients of zeros
    std::vector<std::int64_t> shape;
  };
  for (const Case& c : {Case{"zeros", 0, 3, {6, 5}}, Case{"tolerated", 1, 0, {6, 5}},
                        Case{"one number", 0, 0, {1, 1}}})
    for (const bool staggered : {true, false}) {
      Recipe recipe = quick_recipe();
      recipe.refresh = {.every = 10, .first = 3, .staggered = staggered};
      recipe.preconditioner = EigenvalueCorrected{.solver = Eigh{.tolerance = c.tolerance}};
      ToyModel<float> model({c.shape});
      const auto backend = cpu_backend({.threads = 1});
      const auto ranks = single_rank_communicator();
      Optimizer trained(*backend, *ranks, {model.group(recipe)}),
          resumed(*backend, *ranks, {model.group(recipe)});
      for (int step = 0; step < 6; ++step) {
        model.new_gradients();
        if (step < c.zeros) std::ranges::fill(model.tensors[0].gradient, 0.0F);
        trained.step();
      }
      const StateDict saved = trained.state_dict();

      EXPECT_EQ(resumed.load_state_dict(saved).recomputed, std::vector<std::string>()) << c.name;
      EXPECT_EQ(resumed.state_dict(), saved) << c.name;
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
                                      "corrected_eigenvalues", "rotated_filtered_gradient"}));
  EXPECT_TRUE(optimizer.slot("tensor0", 0, "factor/1").packed_triangle);
  // n (n + 1) / 2 + n^2 per factor, and both moments
  EXPECT_EQ(optimizer.state_bytes(), (21 + 36 + 15 + 25 + 30 + 30) * 4);
}

using Numbers = std::vector<double>;

Numbers numbers_of(const ToyModel<float>& model, const SlotView& view) {
  std::size_t count = 1;
  for (const std::int64_t side : view.extent) count *= static_cast<std::size_t>(side);
  const std::vector<char> bytes = model.bytes_at(view.data, count * sizeof(float));
  std::vector<float> floats(count);
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return {floats.begin(), floats.end()};
}

/// x x_k Q_k for the dimension k of side n with `after` elements behind each of its places
Numbers rotated(const Numbers& x, const Numbers& q, std::size_t n, std::size_t after) {
  Numbers y(x.size(), 0);
  for (std::size_t e = 0; e < x.size(); ++e) {
    const std::size_t i = e / after % n, first = e - i * after;
    for (std::size_t j = 0; j < n; ++j) y[e] += q[i * n + j] * x[first + j * after];
  }
  return y;
}

/// M of the definition, turned into the bases that are stored.
void expect_moment_in_bases(const ToyModel<float>& model, const Optimizer& optimizer,
                            const std::vector<Numbers>& moments) {
  for (std::size_t t = 0; t < moments.size(); ++t) {
    const std::string& name = model.tensors[t].name;
    const SlotView view = optimizer.slot(name, 0, "rotated_filtered_gradient");
    Numbers expected = moments[t];
    std::size_t after = expected.size();
    for (std::size_t k = 0; k < view.extent.size(); ++k) {
      const auto n = static_cast<std::size_t>(view.extent[k]);
      after /= n;
      const SlotView basis = optimizer.slot(name, 0, "basis/" + std::to_string(k));
      expected = rotated(expected, numbers_of(model, basis), n, after);
    }
    const Numbers stored = numbers_of(model, view);
    double largest = 0, error = 0;
    for (std::size_t e = 0; e < expected.size(); ++e) {
      largest = std::max(largest, std::abs(expected[e]));
      error = std::max(error, std::abs(expected[e] - stored[e]));
    }
    EXPECT_LE(error, 2e-6 * largest) << name;
  }
}

class CarriedMoment : public testing::TestWithParam<BasisMethod> {};

TEST_P(CarriedMoment, IsTheFilteredGradientInEveryNewBasis) {
  ToyModel<float> model({{6, 5}, {7}, {3, 4, 2}, {8, 1}, {70, 33}});
  Recipe recipe = quick_recipe();
  recipe.blocking = {};
  recipe.preconditioner = EigenvalueCorrected{.solver = GetParam()};
  recipe.grafting = std::nullopt;
  recipe.refresh = {.every = 3, .first = 2, .staggered = false};
  const auto backend = cpu_backend({.threads = 2});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, {model.group(recipe)});
  const double beta1 = optimizer.group(0).rates.beta1;
  std::vector<Numbers> moments;
  for (const auto& tensor : model.tensors) moments.emplace_back(tensor.value.size(), 0.0);

  for (int step = 1; step <= 8; ++step) {
    model.new_gradients();
    // A factor that overflows has no basis: the old one stays, at step 6.
    if (step == 6)
      for (float& g : model.tensors[0].gradient) g *= 1e20F;
    model.send_gradients();
    const auto refreshes = optimizer.statistics().refreshes;
    optimizer.step();
    for (std::size_t t = 0; t < moments.size(); ++t)
      for (std::size_t e = 0; e < moments[t].size(); ++e)
        moments[t][e] = beta1 * moments[t][e] + (1 - beta1) * double{model.tensors[t].gradient[e]};
    expect_moment_in_bases(model, optimizer, moments);
    EXPECT_EQ(optimizer.statistics().refreshes > refreshes, step == 2 || step % 3 == 0) << step;
  }
  EXPECT_EQ(optimizer.statistics().kept_roots, 2);
}

INSTANTIATE_TEST_SUITE_P(BasisMethods, CarriedMoment,
                         testing::Values(BasisMethod{Eigh{}}, BasisMethod{Qr{}}),
                         [](const auto& tested) {
                           return tested.param.index() == 0 ? "first_method" : "second_method";
                         });

TEST(EigenbasisKinds, FilterInTheBlocksOwnCoordinatesWithGrafting) {
  ToyModel<float> model({{6, 5}});
  Recipe recipe = quick_recipe();
  recipe.preconditioner = EigenvalueCorrected{};
  recipe.grafting = Adam{};
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const Optimizer optimizer(*backend, *ranks, {model.group(recipe)});

  EXPECT_NO_THROW((void)optimizer.slot("tensor0", 0, "filtered_gradient"));
  EXPECT_THROW((void)optimizer.slot("tensor0", 0, "rotated_filtered_gradient"),
               std::invalid_argument);
}

TEST(EigenbasisKinds, ReadEpsilonAloneWithoutRefreshAndGrafting) {
  Recipe recipe{.preconditioner = Eigendecomposed{}, .grafting = std::nullopt};
  recipe.refresh.first = std::nullopt;
  EXPECT_FALSE(RateRanges(recipe).reads("beta2"));
  EXPECT_TRUE(RateRanges(recipe).reads("epsilon"));
}

}  // namespace
}  // namespace shampoo::test
