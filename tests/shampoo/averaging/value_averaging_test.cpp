// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/near.h"

namespace shampoo::test {
namespace {

/// In float64, without a preconditioner and a first moment: the direction is the gradient.
Recipe descent(const ValueAveraging& averaging) {
  return {.preconditioner = Sgd{},
          .grafting = std::nullopt,
          .arithmetic = Arithmetic::float64,
          .communication = {.values = std::holds_alternative<Lookahead>(averaging)},
          .filter = false,
          .value_averaging = averaging};
}

using Vector = std::vector<double>;

/// Values of a line, W_t = 1 - t / 8 without an average that replaces it, and evaluation values,
/// after each of so many steps.
struct Ramp {
  Vector trained, evaluated;
};

Ramp ramp(const ValueAveraging& averaging, int ranks, int steps) {
  Ramp ramp;
  run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    ToyModel<double> model({{5}, {3, 2}});
    ParameterGroup group = model.group(descent(averaging), {.learning_rate = 0.125});
    for (auto& tensor : model.tensors) {
      std::ranges::fill(tensor.value, 1.0);
      std::ranges::fill(tensor.gradient, 1.0);
    }
    Optimizer optimizer(backend, communicator, {group});
    for (int step = 0; step < steps; ++step) {
      optimizer.step();
      const double trained = model.tensors[1].value[3];
      Evaluation guard = optimizer.evaluate();
      const double evaluated = model.tensors[1].value[3];
      for (const auto& tensor : model.tensors)
        for (const double x : tensor.value) EXPECT_EQ(x, evaluated);
      guard.end();
      for (const auto& tensor : model.tensors)
        for (const double x : tensor.value) EXPECT_EQ(x, trained);
      if (communicator.rank() != 0) continue;
      ramp.trained.push_back(trained);
      ramp.evaluated.push_back(evaluated);
    }
  });
  return ramp;
}

/// A(t), t = 1, ..., of both numbers of ranks. Each of t steps rounds a few numbers of at most 4.
void expect_ramp(const ValueAveraging& averaging, const std::function<double(int)>& expected) {
  constexpr int steps = 23;
  for (const int ranks : {1, 3}) {
    const Ramp found = ramp(averaging, ranks, steps);
    ASSERT_EQ(found.evaluated.size(), 23u);
    for (int t = 1; t <= steps; ++t) {
      const auto i = static_cast<std::size_t>(t - 1);
      EXPECT_NEAR(found.evaluated[i], expected(t), 16 * t * 0x1p-53) << t << ", " << ranks;
      if (!std::holds_alternative<Lookahead>(averaging)) {
        EXPECT_EQ(found.trained[i], 1 - t / 8.0) << t;
      }
    }
  }
}

double line(double t) { return 1 - t / 8; }

TEST(ValueAverages, OfAnExponentialMovingAverageFollowItsClosedForm) {
  // A_t - W_t = d (A_(t-1) - W_(t-1) + 1 / 8) = d (1 - d^t) / (1 - d) / 8
  for (const double d : {0.0, 0.5, 0.9})
    expect_ramp(ExponentialAverage{.decay = d},
                [d](int t) { return line(t) + d * (1 - std::pow(d, t)) / (1 - d) / 8; });
}

TEST(ValueAverages, OfEveryThirdStepStayInBetween) {
  expect_ramp(ExponentialAverage{.decay = 0.5, .every = 3, .start = 4}, [](int t) {
    if (t <= 4) return line(t);
    const int n = (t - 4) / 3;  // averages of steps of 3 / 8 from W_4 on
    return line(4 + 3 * n) + 0.5 * (1 - std::pow(0.5, n)) / 0.5 * 3 / 8;
  });
}

TEST(ValueAverages, WithoutBiasAreTheMeanOfWhatHasEntered) {
  for (const double d : {0.0, 0.5, 0.9})
    expect_ramp(ExponentialAverage{.decay = d, .debias = true}, [d](int t) {
      double sum = 0, weights = 0;
      for (int k = 1; k <= t; ++k) {
        sum += std::pow(d, t - k) * line(k);
        weights += std::pow(d, t - k);
      }
      return sum / weights;
    });
}

TEST(ValueAverages, OfStochasticWeightAveragingAreMeansOfSnapshots) {
  for (const int first : {0, 1, 5})
    for (const int every : {1, 4})
      expect_ramp(StochasticWeightAverage{.first = first, .every = every}, [=](int t) {
        if (t < first) return line(t);
        return line(first + every * ((t - first) / every) / 2.0);
      });
}

TEST(ValueAverages, OfLookaheadAreSlowAndTakeThePlaceOfValues) {
  // Slow weights go pull every / 8 in every cycle.
  expect_ramp(Lookahead{.every = 4, .pull = 0.25}, [](int t) { return line(t / 4 * 4 * 0.25); });
  const Ramp found = ramp(Lookahead{.every = 4, .pull = 0.25}, 3, 20);
  for (int t = 1; t <= 20; ++t)
    EXPECT_EQ(found.trained[static_cast<std::size_t>(t - 1)], line(t / 4 + t % 4)) << t;
}

TEST(ValueAverages, TakeFourBytesOfAParameterAtItsOwner) {
  const auto ranks = single_rank_communicator();
  Trainee averaged = small;
  averaged.recipes[0].value_averaging = ExponentialAverage{};
  const Job<float> with(*ranks, averaged, {}), without(*ranks, small, {});
  const std::int64_t elements = 9 * 8 + 13 + 20 * 3;
  EXPECT_EQ(with.optimizer->state_bytes(), without.optimizer->state_bytes() + 4 * elements);
}

std::map<std::string, std::vector<float>> slots_named(const StateDict& state,
                                                      const std::string& slot) {
  std::map<std::string, std::vector<float>> all;
  for (const StateTensor& tensor : state.tensors) {
    if (tensor.slot != slot) continue;
    std::vector<float>& numbers = all[tensor.parameter];
    numbers.resize(tensor.bytes.size() / sizeof(float));
    std::memcpy(numbers.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  return all;
}

TEST(ValueAverages, OfBfloat16ParametersAreThoseOfTheirMasters) {
  Trainee trainee = small;
  trainee.narrow = true;
  trainee.recipes[0].value_averaging = ExponentialAverage{.decay = 0};
  Alone alone(trainee);
  alone.job.train(0, 3);
  const StateDict state = alone.job.optimizer->state_dict();
  const auto masters = slots_named(state, "master");
  auto averages = slots_named(state, "value_average");
  EXPECT_EQ(averages.size(), 3u);
  averages.erase("tensor1");  // in float32, without a master
  EXPECT_EQ(averages, masters);
}

TEST(ValueAverages, StartAgainFromValuesThatTheCallerWrote) {
  Trainee trainee = small;
  trainee.recipes[0].value_averaging = ExponentialAverage{};
  Alone alone(trainee);
  Job<float>& job = alone.job;
  job.train(0, 4);
  auto values = job.values();
  values.first[0][5] = 2.5f;
  job.set_values(values);
  job.optimizer->read_values();
  const Evaluation guard = job.optimizer->evaluate();
  EXPECT_EQ(job.values(), values);
}

TEST(ValueAverages, AreTheSameInReplays) {
  for (const ValueAveraging& averaging :
       {ValueAveraging(ExponentialAverage{.decay = 0.9, .every = 2}),
        ValueAveraging(StochasticWeightAverage{.first = 3, .every = 4}),
        ValueAveraging(Lookahead{.every = 5})}) {
    Recipe recipe = captured_recipe();
    recipe.refresh.every = 25;
    recipe.value_averaging = averaging;
    recipe.communication.values = true;
    DeviceJob plain(recipe), replayed(recipe);
    std::optional<Graph> graph;
    for (int step = 0; step < 20; ++step) {
      disturb(plain, step);
      disturb(replayed, step);
      plain.optimizer->step();
      replayed.optimizer->prepare_step();
      if (replayed.optimizer->refresh_is_due()) {
        replayed.optimizer->enqueue_step();
        continue;
      }
      if (!graph) graph = capture(replayed);
      replayed.device.replay(*graph);
    }
    ASSERT_TRUE(graph);
    EXPECT_EQ(replayed.values(), plain.values());
    EXPECT_EQ(replayed.state(), plain.state());
    const Evaluation theirs = plain.optimizer->evaluate(), ours = replayed.optimizer->evaluate();
    EXPECT_EQ(replayed.values(), plain.values());
  }
}

TEST(ValueAverages, NameWhatIsOutOfRange) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const auto refusal = [&](const Recipe& recipe) {
    ToyModel<float> model({{4, 3}});
    return error_of<std::invalid_argument>(
        [&] { Optimizer(*backend, *ranks, {model.group(recipe)}); });
  };
  const auto of = [](const ValueAveraging& averaging) {
    return Recipe{.communication = {.values = true}, .value_averaging = averaging};
  };
  EXPECT_EQ(refusal(of(ExponentialAverage{.decay = 1})),
            "group 0: recipe.value_averaging.decay must be in [0, 1), got 1");
  EXPECT_EQ(refusal(of(ExponentialAverage{.every = 0})),
            "group 0: recipe.value_averaging.every must be >= 1, got 0");
  EXPECT_EQ(refusal(of(ExponentialAverage{.start = -1})),
            "group 0: recipe.value_averaging.start must be >= 0, got -1");
  EXPECT_EQ(refusal(of(StochasticWeightAverage{.first = -1})),
            "group 0: recipe.value_averaging.first must be >= 0, got -1");
  EXPECT_EQ(refusal(of(StochasticWeightAverage{.every = 0})),
            "group 0: recipe.value_averaging.every must be >= 1, got 0");
  EXPECT_EQ(refusal(of(Lookahead{.every = 0})),
            "group 0: recipe.value_averaging.every must be >= 1, got 0");
  EXPECT_EQ(refusal(of(Lookahead{.pull = 0})),
            "group 0: recipe.value_averaging.pull must be in (0, 1], got 0");
  EXPECT_EQ(refusal({.value_averaging = Lookahead{}}),
            "group 0: recipe.communication.values must be true with lookahead, which sends slow "
            "weights, got false");
  expect_says(refusal({.averaging = PrimalAveraging{}, .value_averaging = ExponentialAverage{}}),
              {"group 0: recipe.value_averaging must be none with an averaging of iterates",
               "got exponential"});
  EXPECT_EQ(refusal(of(Lookahead{.pull = 1})), "");
}

}  // namespace
}  // namespace shampoo::test
