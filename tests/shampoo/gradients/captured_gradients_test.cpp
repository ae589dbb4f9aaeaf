// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "tests/shampoo/gradients/gradient_run.h"
#include "tests/shampoo/protocol/captured_step.h"

namespace shampoo::test {
namespace {

/// Gradients of the loss times the scale that a backward pass would read on the device.
void scale_gradients(DeviceJob& job) {
  float scale = 0;
  job.device_backend.download(&scale, job.optimizer->loss_scale_address(), sizeof(float));
  job.device_backend.synchronize();
  for (auto& tensor : job.model.tensors)
    for (float& g : tensor.gradient) g *= scale;
  job.model.send_gradients();
}

TEST(ACapturedStep, DecidesAboutGradientsWithTheBitsOfPlainSteps) {
  Recipe seldom = captured_recipe();
  seldom.refresh.every = 25;
  for (const NamedGradientOptions& set : gradient_option_sets()) {
    SCOPED_TRACE(set.name);
    const OptimizerOptions options{.gradients = set.options};
    DeviceJob plain(seldom, awkward_shapes(), {}, options),
        replayed(seldom, awkward_shapes(), {}, options);
    std::optional<Graph> graph;
    int replays = 0;
    for (int step = 0; step < 12; ++step) {
      for (DeviceJob* const job : {&plain, &replayed}) {
        disturb(*job, step);
        scale_gradients(*job);
      }
      plain.optimizer->step();
      replayed.optimizer->prepare_step();
      if (replayed.optimizer->refresh_is_due()) {
        replayed.optimizer->enqueue_step();
      } else {
        if (!graph) graph = capture(replayed);
        replayed.device.replay(*graph);
        ++replays;
      }
      EXPECT_EQ(replayed.optimizer->latest_result().applied(),
                plain.optimizer->latest_result().applied());
      EXPECT_EQ(replayed.optimizer->latest_result().clip_factor(),
                plain.optimizer->latest_result().clip_factor());
    }
    EXPECT_GE(replays, 9);
    EXPECT_EQ(replayed.values(), plain.values());
    EXPECT_EQ(replayed.state(), plain.state());
    EXPECT_EQ(replayed.optimizer->loss_scale(), plain.optimizer->loss_scale());
    EXPECT_EQ(replayed.optimizer->statistics().overflows, plain.optimizer->statistics().overflows);
    EXPECT_EQ(replayed.optimizer->statistics().spikes, plain.optimizer->statistics().spikes);
  }
}

TEST(ACapturedStep, ThatIsReplayedTwiceLeavesTheLossScaleAlone) {
  DeviceJob job(captured_recipe(), awkward_shapes(), {},
                {.gradients = {.loss_scaling = DynamicLossScale{.interval = 1}}});
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  job.optimizer->prepare_step();
  const Graph graph = capture(job);
  job.device.replay(graph);
  job.optimizer->prepare_step();
  const double before = job.optimizer->loss_scale();
  job.device.replay(graph);
  job.device.replay(graph);
  float scale = 0;
  job.device_backend.download(&scale, job.optimizer->loss_scale_address(), sizeof(float));
  job.device_backend.synchronize();
  EXPECT_EQ(scale, 2 * before);
}

}  // namespace
}  // namespace shampoo::test
