// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/shampoo/transforms/transformed_run.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class LearningRateFactors : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

TEST_P(LearningRateFactors, MultiplyTheRatesOfAllGroupsAsAStepRuns) {
  // A power of two in each step, so that nothing is rounded.
  const auto values = [](int ranks, bool on_backend, WeightDecay decay) {
    std::vector<std::vector<float>> found;
    run_ranks_at(GetParam(), ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      ToyModel<float> model(awkward_shapes(), 1, &backend);
      std::vector<double> factor = {1};
      Placed<double> placed(&backend, factor);
      Recipe recipe = quick_recipe();
      recipe.averaging = Momentum{};
      recipe.weight_decay = decay;
      Optimizer optimizer(
          backend, communicator,
          model.groups(recipe, {.learning_rate = 0.03, .weight_decay = 0.1, .momentum = 0.5}),
          {.learning_rate_factor = on_backend ? placed.data() : nullptr});
      for (int step = 0; step < 5; ++step) {
        model.new_gradients();
        factor[0] = std::ldexp(1, -step);
        placed.send();
        for (int g = 0; g < optimizer.group_count() && !on_backend; ++g)
          optimizer.group(g).rates.learning_rate = 0.03 * factor[0];
        (void)optimizer.step().applied();
      }
      if (communicator.rank() == 0) found = model.values();
    });
    return found;
  };
  for (const WeightDecay decay : {WeightDecay::decoupled, WeightDecay::l2}) {
    const auto expected = values(1, false, decay);
    EXPECT_EQ(values(1, true, decay), expected);
    EXPECT_EQ(values(3, true, decay), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Places, LearningRateFactors, testing::Values(Place::cpu, Place::emulated),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(ACapturedStep, ReadsTheLearningRateFactorOfEveryReplay) {
  Recipe seldom = captured_recipe();
  seldom.refresh.every = 25;
  std::vector<double> factor = {1};
  DeviceJob plain(seldom), replayed(awkward_shapes());
  Placed<double> placed(&replayed.device_backend, factor);
  const auto ranks = single_rank_communicator(MemoryKind::cuda);
  replayed.begin(*ranks, seldom, {}, {.learning_rate_factor = placed.data()}, 3);
  const Rates rates;
  std::optional<Graph> graph;
  for (int step = 0; step < 8; ++step) {
    for (DeviceJob* const job : {&plain, &replayed}) job->model.new_gradients();
    factor[0] = std::ldexp(1, -step);
    placed.send();
    for (int g = 0; g < plain.optimizer->group_count(); ++g)
      plain.optimizer->group(g).rates.learning_rate = rates.learning_rate * factor[0];
    plain.optimizer->step();
    replayed.optimizer->prepare_step();
    if (replayed.optimizer->refresh_is_due()) {
      replayed.optimizer->enqueue_step();
    } else {
      if (!graph) graph = capture(replayed);
      replayed.device.replay(*graph);
    }
  }
  EXPECT_TRUE(graph);
  EXPECT_EQ(replayed.values(), plain.values());
}

TEST(LearningRateFactor, IsRefusedWhereTheHostComputesWithTheRate) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  const double factor = 1;
  const auto refusal = [&](const Recipe& recipe) {
    ToyModel<float> model({{4, 3}});
    return error_of<std::invalid_argument>([&] {
      Optimizer(*backend, *ranks, {model.group(recipe)}, {.learning_rate_factor = &factor});
    });
  };
  const std::string rest =
      ": computes with the learning rate on the host; options: learning_rate_factor must be null "
      "with it";
  EXPECT_EQ(refusal({.weight_decay = WeightDecay::plain}), "group 0: recipe.weight_decay" + rest);
  EXPECT_EQ(refusal({.weight_decay = WeightDecay::corrected}),
            "group 0: recipe.weight_decay" + rest);
  EXPECT_EQ(refusal({.averaging = ScheduleFree{}}), "group 0: recipe.averaging" + rest);
  EXPECT_EQ(refusal({}), "");
}

}  // namespace
}  // namespace shampoo::test
