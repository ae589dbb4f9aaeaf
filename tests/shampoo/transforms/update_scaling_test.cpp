// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/shampoo/transforms/transformed_run.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class UpdateScalings : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }

  /// One step of plain descent of every tensor: W - learning_rate D, D = factors(W, G) applied to
  /// G + weight_decay W.
  using Factors = std::function<std::pair<double, double>(const std::vector<double>& w,
                                                          const std::vector<double>& g)>;
  static void expect_step(const UpdateScaling& scaling, const Factors& factors) {
    Recipe recipe = plain_descent();
    recipe.update_scaling = scaling;
    const TransformedRun<double> run{recipe};
    const ToyModel<double> model(run.shapes);
    for (const int ranks : {1, 3}) {
      const auto found = run.at(GetParam(), ranks);
      for (std::size_t t = 0; t < found.size(); ++t) {
        const auto& [name, shape, w, g] = model.tensors[t];
        const auto [of_direction, of_decay] = factors(w, g);
        for (std::size_t i = 0; i < w.size(); ++i) {
          const double p = of_direction * g[i], decay = of_decay * 0.25 * w[i];
          // Sums of up to 272 terms, then a few roundings of each operand.
          const double most = std::abs(w[i]) + std::abs(p) + std::abs(decay);
          ASSERT_NEAR(found[t][i], w[i] - 0.5 * (p + decay), 300 * 0x1p-53 * most)
              << name << ", " << ranks << " ranks";
        }
      }
    }
  }
};

TEST_P(UpdateScalings, ClipTheRootMeanSquareOfDirectionsBeforeDecay) {
  const auto clipped = [](double limit) {
    return [limit](const std::vector<double>&, const std::vector<double>& g) {
      const double rms = norm_of(g) / std::sqrt(static_cast<double>(g.size()));
      return std::pair(std::min(1.0, limit / rms), 1.0);
    };
  };
  expect_step(UpdateClipping{.limit = 0.1}, clipped(0.1));
  expect_step(UpdateClipping{.limit = 1}, clipped(1));
}

TEST_P(UpdateScalings, ByTrustRatioGiveADirectionWithItsDecayTheNormOfTheValue) {
  const auto trusted = [](double coefficient, double most) {
    return [=](const std::vector<double>& w, const std::vector<double>& g) {
      std::vector<double> d(g);
      for (std::size_t i = 0; i < d.size(); ++i) d[i] += 0.25 * w[i];
      const double factor = std::min(most, coefficient * norm_of(w) / norm_of(d));
      return std::pair(factor, factor);
    };
  };
  expect_step(TrustRatio{.coefficient = 0.02}, trusted(0.02, 10));
  expect_step(TrustRatio{.coefficient = 2, .most = 1.5}, trusted(2, 1.5));
}

TEST_P(UpdateScalings, ByTrustRatioLeaveADirectionAloneWhereANormIsZero) {
  run_ranks_at(GetParam(), 1, [](Communicator& communicator, kernels::Backend& backend) {
    ToyModel<double> model({{4}, {5}}, 1, &backend);
    std::ranges::fill(model.tensors[0].value, 0.0);
    std::ranges::fill(model.tensors[1].gradient, 0.0);
    model.send_values();
    model.send_gradients();
    Recipe recipe = plain_descent();
    recipe.update_scaling = TrustRatio{};
    Optimizer optimizer(backend, communicator, {model.group(recipe, {.learning_rate = 0.5})});
    EXPECT_TRUE(optimizer.step().applied());
    for (std::size_t i = 0; i < 4; ++i)
      EXPECT_EQ(model.values()[0][i], -0.5 * model.tensors[0].gradient[i]);
    EXPECT_EQ(model.values()[1], model.tensors[1].value);
  });
}

TEST_P(UpdateScalings, ComeAfterGrafting) {
  Recipe recipe = quick_recipe();
  recipe.arithmetic = Arithmetic::float64;
  recipe.blocking.size = 64;
  recipe.update_scaling = UpdateClipping{.limit = 1e-3};
  const TransformedRun<double> run{recipe, {.learning_rate = 1}};
  const ToyModel<double> model(run.shapes);
  const auto found = run.at(GetParam(), 3);
  for (std::size_t t = 0; t < found.size(); ++t) {
    std::vector<double> update(found[t]);
    for (std::size_t i = 0; i < update.size(); ++i) update[i] -= model.tensors[t].value[i];
    const double n = std::sqrt(static_cast<double>(update.size()));
    // W - U loses |W| 2^-53 of each element of U.
    EXPECT_NEAR(norm_of(update) / n, 1e-3, 8 * 0x1p-53 + 1e-3 * 300 * 0x1p-53) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Places, UpdateScalings, testing::Values(Place::cpu, Place::emulated),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(UpdateScaling, NamesWhatIsOutOfRange) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto refusal = [&](const UpdateScaling& scaling) {
    ToyModel<float> model({{4, 3}});
    return error_of<std::invalid_argument>(
        [&] { Optimizer(*backend, *ranks, {model.group({.update_scaling = scaling})}); });
  };
  EXPECT_EQ(refusal(UpdateClipping{.limit = 0}),
            "group 0: recipe.update_scaling.limit must be in (0, inf), got 0");
  EXPECT_EQ(refusal(TrustRatio{.coefficient = -1}),
            "group 0: recipe.update_scaling.coefficient must be in (0, inf), got -1");
  EXPECT_EQ(refusal(TrustRatio{.most = std::numeric_limits<double>::infinity()}),
            "group 0: recipe.update_scaling.most must be in (0, inf), got inf");
}

}  // namespace
}  // namespace shampoo::test
