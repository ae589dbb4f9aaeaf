// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// Replays all steps but those that refresh.
struct Replays {
  template <typename Job>
  void step(Job& job) {
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

TEST(ACapturedStep, IsReplayedWithTheBitsOfPlainSteps) {
  Recipe seldom = captured_recipe();
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

TEST(ACapturedStep, MayHaveTheFirstRefresh) {
  Recipe queued = captured_recipe(Minimax{});
  queued.blocking.size = 80;
  const DeviceJob::Shapes long_sides = {{70, 3}};  // a library multiplies these
  DeviceJob plain(queued, long_sides), replayed(queued, long_sides);
  plain.optimizer->step();
  replayed.optimizer->step();

  plain.optimizer->step();
  replayed.optimizer->prepare_step();
  ASSERT_TRUE(replayed.optimizer->refresh_is_due());
  replayed.device.replay(capture(replayed));

  EXPECT_EQ(replayed.values(), plain.values());
  EXPECT_EQ(replayed.state(), plain.state());
  EXPECT_GT(replayed.optimizer->statistics().refreshes, 0);
}

/// Another optimizer of the same backend.
struct Neighbour {
  Neighbour(DeviceJob& job, const Recipe& recipe, const DeviceJob::Shapes& shapes)
      : device(job.device),
        model(shapes, 1, &job.device_backend),
        ranks(single_rank_communicator(MemoryKind::cuda)),
        optimizer(std::make_unique<Optimizer>(job.backend, *ranks,
                                              std::vector<ParameterGroup>{model.group(recipe)})) {}

  JobDevice& device;
  ToyModel<float> model;
  std::unique_ptr<Communicator> ranks;
  std::unique_ptr<Optimizer> optimizer;
};

TEST(ACapturedStep, IsReplayedWhereAnotherOptimizerOfTheBackendNeedsMoreScratchMemory) {
  const DeviceJob::Shapes larger = {{48, 40}};
  DeviceJob plain(captured_recipe()), job(captured_recipe()),
      plain_neighbour(captured_recipe(), larger);
  std::optional<Neighbour> neighbour;
  Replays replays, replays_of_neighbour;
  for (int step = 0; step < 10; ++step) {
    plain.model.new_gradients();
    plain.optimizer->step();
    job.model.new_gradients();
    replays.step(job);
    if (step == 3) {
      ASSERT_GT(replays.count, 0);
      neighbour.emplace(job, captured_recipe(), larger);
    }
    if (!neighbour) continue;
    plain_neighbour.model.new_gradients();
    plain_neighbour.optimizer->step();
    neighbour->model.new_gradients();
    replays_of_neighbour.step(*neighbour);
  }
  EXPECT_GT(replays_of_neighbour.count, 2);
  EXPECT_EQ(job.values(), plain.values());
  EXPECT_EQ(neighbour->model.values(), plain_neighbour.values());
}

TEST(ACapturedStep, DoesNotRunBeforeItIsReplayed) {
  DeviceJob job(captured_recipe());
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
  DeviceJob job(captured_recipe());
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
  DeviceJob job(captured_recipe()), undisturbed(captured_recipe());
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
  DeviceJob job(captured_recipe(Eigen{}));
  job.optimizer->step();
  job.optimizer->prepare_step();
  EXPECT_NE(error_of<std::logic_error>([&] { capture(job); }).find("solver eigen"),
            std::string::npos);
  EXPECT_TRUE(job.optimizer->enqueue_step().applied());
}

TEST(ReplaysWithoutPrepareStep, EndTheOptimizerUntilALoad) {
  DeviceJob job(captured_recipe());
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
  DeviceJob job(captured_recipe());
  Replays replays;
  for (int step = 0; step < 4; ++step) replays.step(job);
  const auto values = job.values();
  job.optimizer->group(0).rates.epsilon = -1;
  EXPECT_THROW(job.optimizer->prepare_step(), std::invalid_argument);
  job.device.replay(*replays.graph);
  EXPECT_EQ(job.values(), values);
}

TEST(Capture, TakesNothingButEnqueueStep) {
  DeviceJob job(captured_recipe());
  job.optimizer->step();
  job.device.begin_capture();
  EXPECT_THROW(job.optimizer->prepare_step(), std::logic_error);
  EXPECT_THROW(job.optimizer->enqueue_step(), std::logic_error) << "nothing was prepared";
  job.device.end_capture();
  EXPECT_TRUE(job.optimizer->step().applied());
}

}  // namespace
}  // namespace shampoo::test
