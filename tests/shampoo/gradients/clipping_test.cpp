// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

class GradientClipping : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    require(GetParam());
    if (IsSkipped() || HasFatalFailure()) return;
    backend = backend_at(GetParam());
    ranks = single_rank_communicator(backend->memory_kind());
  }

  /// Six steps with the options, and without where `clip` changes gradients beforehand, times its
  /// last argument.
  ///
  /// Factors of scaled gradients may be scaled sums, in place of sums of scaled and rounded
  /// gradients. So values may differ as much as by another rounding of the gradients, which a
  /// factor of 1 + 2^-23 makes; 8 covers that these are two roundings of one size.
  template <typename Clip>
  void expect_same(const Clipping& clipping, const Clip& clip) {
    const auto prepared = [&](const StepResult& result, bool absent, float factor) {
      return [&, result, absent, factor](ToyModel<float>& model) {
        std::vector<double> squares;
        for (const auto& tensor : model.tensors) {
          squares.push_back(0);
          const bool counts = !absent || &tensor != &model.tensors[4];
          for (const float g : tensor.gradient)
            squares.back() += counts ? static_cast<double>(g) * static_cast<double>(g) : 0;
        }
        clip(model, squares, result, factor);
      };
    };
    GradientRun clipped(*backend, *ranks, {.gradients = {.clipping = clipping}});
    GradientRun plain(*backend, *ranks, {}), rounded(*backend, *ranks, {});
    for (int step = 0; step < 6; ++step) {
      const StepResult result = clipped.step();
      plain.step(prepared(result, step % 3 == 2, 1));
      rounded.step(prepared(result, step % 3 == 2, 1 + 0x1p-23F));
    }
    const auto found = clipped.model.values(), expected = plain.model.values(),
               other = rounded.model.values();
    for (std::size_t t = 0; t < expected.size(); ++t) {
      float most = 0;
      for (std::size_t i = 0; i < expected[t].size(); ++i)
        most = std::max(most, std::abs(other[t][i] - expected[t][i]));
      for (std::size_t i = 0; i < expected[t].size(); ++i)
        EXPECT_LE(std::abs(found[t][i] - expected[t][i]), 8 * most) << t << ", " << i;
    }
  }

  std::shared_ptr<kernels::Backend> backend;
  std::unique_ptr<Communicator> ranks;
};

/// min(1, most / (norm + 1e-6))
double factor_of(double squared_norm, double most) {
  return std::min(1.0, most / (std::sqrt(squared_norm) + 1e-6));
}

TEST_P(GradientClipping, ByGlobalNormIsOneFactorForAllRecipes) {
  for (const double most : {2.0, 1e3})
    expect_same(ClipGlobalNorm{most},
                [&](ToyModel<float>& model, const std::vector<double>& squares,
                    const StepResult& result, float rounding) {
                  double sum = 0;
                  for (const double square : squares) sum += square;
                  EXPECT_NEAR(result.gradient_norm(), std::sqrt(sum), 1e-12 * std::sqrt(sum));
                  EXPECT_NEAR(result.clip_factor(), factor_of(sum, most), 1e-12);
                  EXPECT_EQ(result.clip_factor() == 1, most == 1e3);
                  const float factor = static_cast<float>(result.clip_factor()) * rounding;
                  for (auto& tensor : model.tensors)
                    for (float& g : tensor.gradient) g *= factor;
                });
}

TEST_P(GradientClipping, ByParameterNormIsAFactorForEach) {
  constexpr double most = 3;
  expect_same(ClipParameterNorm{most},
              [](ToyModel<float>& model, const std::vector<double>& squares,
                 const StepResult& result, float rounding) {
                EXPECT_EQ(result.clip_factor(), 1);
                int clipped = 0;
                for (std::size_t t = 0; t < squares.size(); ++t) {
                  const auto factor = static_cast<float>(factor_of(squares[t], most));
                  clipped += factor < 1;
                  for (float& g : model.tensors[t].gradient) g *= factor * rounding;
                }
                EXPECT_GT(clipped, 3);
                EXPECT_LT(clipped, 10);
              });
}

TEST_P(GradientClipping, ByValueBoundsEveryElement) {
  expect_same(ClipValue{0.5}, [](ToyModel<float>& model, const std::vector<double>& squares,
                                 const StepResult& result, float rounding) {
    double sum = 0;
    for (const double square : squares) sum += square;
    EXPECT_NEAR(result.gradient_norm(), std::sqrt(sum), 1e-12 * std::sqrt(sum));
    for (auto& tensor : model.tensors)
      for (float& g : tensor.gradient) g = rounding * std::clamp(g, -0.5f, 0.5f);
  });
}

TEST_P(GradientClipping, OfAMeanOverRanksIsTheSameOnAllOfThem) {
  // Gradients (3, 0) and (0, 4) on two ranks: their mean (1.5, 2) has the norm 2.5.
  std::vector<float> value{0, 0}, gradient{1.5f, 2};
  Placed<float> values(backend.get(), value), gradients(backend.get(), gradient);
  ParameterGroup group{.parameters = {{.name = "w",
                                       .shape = {2},
                                       .value = values.data(),
                                       .gradient = gradients.data()}},
                       .rates = {.learning_rate = 1},
                       .recipe = recipes::sgd()};
  group.rates = read_rates(group.recipe, group.rates);
  Optimizer optimizer(*backend, *ranks, {group}, {.gradients = {.clipping = ClipGlobalNorm{1}}});
  EXPECT_EQ(optimizer.step().gradient_norm(), 2.5);
  EXPECT_NEAR(values.fetch()[0], -0.6, 1e-6);
  EXPECT_NEAR(values.fetch()[1], -0.8, 1e-6);
  EXPECT_EQ(optimizer.statistics().clipped_steps, 1);
}

TEST_P(GradientClipping, LeavesGradientsWithoutANormAlone) {
  for (const Clipping& clipping : {Clipping(ClipGlobalNorm{2}), Clipping(NoClipping{})}) {
    GradientRun run(*backend, *ranks,
                    {.non_finite = NonFinite::ignore, .gradients = {.clipping = clipping}});
    const StepResult result = run.overflow();
    EXPECT_TRUE(result.applied());
    EXPECT_TRUE(std::isnan(result.gradient_norm()));
    EXPECT_EQ(result.clip_factor(), 1);
    GradientRun zeros(*backend, *ranks, {.gradients = {.clipping = clipping}});
    const StepResult none = zeros.step([](ToyModel<float>& model) {
      for (auto& tensor : model.tensors) std::ranges::fill(tensor.gradient, 0.0f);
    });
    EXPECT_TRUE(none.applied());
    EXPECT_EQ(none.gradient_norm(), 0);
    EXPECT_EQ(none.clip_factor(), 1);
  }
}

TEST_P(GradientClipping, TakesAStepInWhichAllGradientsAreAbsent) {
  for (const Clipping& clipping : {Clipping(ClipGlobalNorm{2}), Clipping(ClipParameterNorm{2})}) {
    GradientRun run(
        *backend, *ranks,
        {.gradients = {.loss_scaling = DynamicLossScale{.interval = 2}, .clipping = clipping}});
    run.step();
    const auto values = run.model.values();
    for (int g = 0; g < run.optimizer.group_count(); ++g)
      run.optimizer.group(g).set_gradient(0, nullptr);
    const StepResult result = run.optimizer.step();
    EXPECT_TRUE(result.applied());
    EXPECT_EQ(result.absent_gradients(), 10);
    EXPECT_EQ(result.gradient_norm(), 0);
    EXPECT_EQ(result.clip_factor(), 1);
    EXPECT_EQ(run.model.values(), values);
    EXPECT_EQ(run.optimizer.loss_scale(), 0x1p17);
  }
}

/// Twelve tensors, in any order, dealt to so many groups: norms of twenty clipped steps, and
/// values.
std::vector<double> norms_of_steps(const std::vector<std::size_t>& order, std::size_t groups) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<std::vector<double>> values(order.size(), std::vector<double>(12)), gradients(values);
  std::vector<ParameterGroup> all(groups, ParameterGroup{.recipe = recipes::adamw()});
  for (ParameterGroup& group : all) group.recipe.arithmetic = Arithmetic::float64;
  for (const std::size_t t : order)
    all[t % groups].parameters.push_back({.name = "w" + std::to_string(t),
                                          .shape = {3, 4},
                                          .value = values[t].data(),
                                          .gradient = gradients[t].data()});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*backend, *ranks, all, {.gradients = {.clipping = ClipGlobalNorm{0.5}}});
  std::vector<double> norms;
  for (int step = 0; step < 20; ++step) {
    for (auto& gradient : gradients)
      for (double& g : gradient) g = uniform(random);
    norms.push_back(optimizer.step().gradient_norm());
  }
  for (const auto& value : values) norms.insert(norms.end(), value.begin(), value.end());
  return norms;
}

TEST(GlobalNorm, HasTheSameBitsInAnyOrderAndGrouping) {
  std::vector<std::size_t> order(12);
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::vector<double> norms = norms_of_steps(order, 1);
  EXPECT_EQ(norms_of_steps(order, 2), norms);
  std::ranges::reverse(order);
  EXPECT_EQ(norms_of_steps(order, 1), norms);
}

INSTANTIATE_TEST_SUITE_P(Places, GradientClipping, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

}  // namespace
}  // namespace shampoo::test
