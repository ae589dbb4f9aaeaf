// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <optional>

#include "tests/shampoo/protocol/device_job.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using Graph = std::vector<EmulatedDevice::Work>;

/// With steps that refresh nothing, which alone can be captured with such a solver.
Recipe recipe(const Solver& solver = Eigen{}) {
  Recipe recipe = quick_recipe();
  recipe.refresh.staggered = false;
  recipe.preconditioner = RootInverse{.solver = solver};
  recipe.averaging = Momentum{};
  return recipe;
}

Graph capture(DeviceJob& job) {
  job.device.begin_capture();
  try {
    job.optimizer->enqueue_step();
  } catch (...) {
    job.device.end_capture();
    throw;
  }
  return job.device.end_capture();
}

/// Replays all steps but those that refresh.
struct Replays {
  void step(DeviceJob& job) {
    job.optimizer->prepare_step();
    if (job.optimizer->refresh_is_due()) {
      job.optimizer->enqueue_step();
      return;
    }
    if (!graph) graph = capture(job);
    job.device.replay(*graph);
    ++count;
  }
  std::optional<Graph> graph = {};
  int count = 0;
};

/// Changes to a run before its `step`-th step: other rates, gradients that appear and disappear,
/// one that is not finite.
void disturb(DeviceJob& job, int step) {
  job.model.new_gradients();
  if (step == 7 || step == 8) job.model.tensors[3].gradient[2] = -std::nanf("");
  job.model.send_gradients();
  job.optimizer->group(0).rates.learning_rate = 1e-3 * (step + 1);
  job.optimizer->group(1).rates.beta2 = 0.9 + 0.003 * step;
  job.set_present(4, step % 3 != 0);
  job.set_present(9, step % 5 != 0);
}

TEST(ACapturedStep, IsReplayedWithTheBitsOfPlainSteps) {
  Recipe seldom = recipe();
  seldom.refresh.every = 25;
  DeviceJob plain(seldom), replayed(seldom);
  Replays replays;
  for (int step = 0; step < 30; ++step) {
    disturb(plain, step);
    disturb(replayed, step);
    plain.optimizer->step();
    replays.step(replayed);
    if (step == 7) {
      EXPECT_FALSE(replayed.optimizer->latest_result().applied());
      EXPECT_EQ(replayed.optimizer->latest_result().non_finite_gradient(), "tensor3");
    }
  }
  EXPECT_GE(replays.count, 20);
  EXPECT_EQ(replayed.values(), plain.values());
  EXPECT_EQ(replayed.state(), plain.state());
  for (const auto& tensor : plain.model.tensors)
    EXPECT_EQ(replayed.optimizer->steps(tensor.name), plain.optimizer->steps(tensor.name));
  EXPECT_EQ(replayed.optimizer->statistics().skipped_steps, 2);
  EXPECT_EQ(replayed.optimizer->statistics().applied_steps,
            plain.optimizer->statistics().applied_steps);
}

/// Every replay computes all roots, so there are few: a stack of two blocks, blocks of one, two and
/// three dimensions; scalars have none.
const DeviceJob::Shapes few_factors = {{}, {1}, {16}, {1, 7}, {5, 4}, {1}, {}, {1}, {1}, {3, 4, 5}};

TEST(ACapturedStep, WithARefreshServesAllSteps) {
  for (const bool staggers : {false, true}) {
    Recipe queued = recipe(Minimax{});
    queued.refresh.staggered = staggers;
    DeviceJob plain(queued, few_factors), replayed(queued, few_factors);
    std::optional<Graph> graph;
    int refreshes = 0;
    for (int step = 0; step < 20; ++step) {
      disturb(plain, step);
      disturb(replayed, step);
      plain.optimizer->step();
      replayed.optimizer->prepare_step();
      refreshes += replayed.optimizer->refresh_is_due();
      if (!graph && !replayed.optimizer->refresh_is_due()) {
        replayed.optimizer->enqueue_step();
        continue;
      }
      if (!graph) graph = capture(replayed);
      replayed.device.replay(*graph);
    }
    EXPECT_GE(refreshes, 5);
    EXPECT_EQ(replayed.values(), plain.values());
    EXPECT_EQ(replayed.state(), plain.state());
    const Statistics a = replayed.optimizer->statistics(), b = plain.optimizer->statistics();
    EXPECT_EQ(a.refreshes, b.refreshes);
    EXPECT_GT(a.refreshes, 0);
    EXPECT_EQ(a.skipped_steps, 2);
    EXPECT_EQ(a.kept_roots, 0);
  }
}

TEST(ACapturedStep, DoesNotRunBeforeItIsReplayed) {
  DeviceJob job(recipe());
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  const auto before = job.values();
  job.optimizer->prepare_step();
  const Graph graph = capture(job);
  EXPECT_EQ(job.values(), before);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 3);
  job.device.replay(graph);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 4);
  EXPECT_NE(job.values(), before);
}

TEST(APreparedStep, ThatWasNeitherEnqueuedNorReplayedIsAnErrorOfTheNextOne) {
  DeviceJob job(recipe());
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  Replays replays;
  replays.step(job);
  job.optimizer->prepare_step();
  const std::string message = error_of<std::logic_error>([&] { job.optimizer->prepare_step(); });
  EXPECT_NE(message.find("enqueued or replayed"), std::string::npos) << message;
  EXPECT_EQ(job.optimizer->steps("tensor0"), 4);
  replays.step(job);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 5);
}

TEST(AReplay, WithoutTheDueRefreshIsAnErrorAndChangesNothing) {
  DeviceJob job(recipe()), undisturbed(recipe());
  Replays replays;
  for (int step = 0; step < 5; ++step) {
    replays.step(job);
    undisturbed.optimizer->step();
  }
  const auto values = job.values();
  const auto state = job.state();
  job.optimizer->prepare_step();
  ASSERT_TRUE(job.optimizer->refresh_is_due());
  job.device.replay(*replays.graph);

  EXPECT_NE(error_of<std::logic_error>([&] { job.optimizer->prepare_step(); }).find("refresh"),
            std::string::npos);
  EXPECT_EQ(job.values(), values);
  EXPECT_EQ(job.state(), state);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 5);
  EXPECT_EQ(job.optimizer->failure(), "");
  replays.step(job);
  undisturbed.optimizer->step();
  EXPECT_EQ(job.values(), undisturbed.values());
}

TEST(ARefreshWithHostSteps, IsNotCapturedAndNamed) {
  DeviceJob job(recipe(Eigen{}));
  job.optimizer->step();
  job.optimizer->prepare_step();
  EXPECT_NE(error_of<std::logic_error>([&] { capture(job); }).find("solver eigen"),
            std::string::npos);
  EXPECT_TRUE(job.optimizer->enqueue_step().applied());
}

TEST(ReplaysWithoutPrepareStep, EndTheOptimizerUntilALoad) {
  DeviceJob job(recipe());
  Replays replays;
  for (int step = 0; step < 3; ++step) replays.step(job);
  const StateDict kept = job.optimizer->full_state_dict();
  replays.step(job);
  const auto values = job.values();
  job.device.replay(*replays.graph);
  EXPECT_EQ(job.values(), values);
  // The second replay is detected with the next step.
  const std::string message = error_of<std::logic_error>([&] {
    replays.step(job);
    job.optimizer->prepare_step();
  });
  EXPECT_NE(message.find("replayed more than once"), std::string::npos) << message;
  EXPECT_NE(job.optimizer->failure(), "");
  job.optimizer->load_state_dict(kept);
  replays.step(job);
  EXPECT_TRUE(job.optimizer->latest_result().applied());
}

TEST(ABadRateBetweenReplays, LeavesAReplayWithoutEffect) {
  DeviceJob job(recipe());
  Replays replays;
  for (int step = 0; step < 4; ++step) replays.step(job);
  const auto values = job.values();
  job.optimizer->group(0).rates.epsilon = -1;
  EXPECT_THROW(job.optimizer->prepare_step(), std::invalid_argument);
  job.device.replay(*replays.graph);
  EXPECT_EQ(job.values(), values);
}

TEST(Capture, TakesNothingButEnqueueStep) {
  DeviceJob job(recipe());
  job.optimizer->step();
  job.device.begin_capture();
  EXPECT_THROW(job.optimizer->prepare_step(), std::logic_error);
  EXPECT_THROW(job.optimizer->enqueue_step(), std::logic_error) << "nothing was prepared";
  job.device.end_capture();
  EXPECT_TRUE(job.optimizer->step().applied());
}

}  // namespace
}  // namespace shampoo::test
