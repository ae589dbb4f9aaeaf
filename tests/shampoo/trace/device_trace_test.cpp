// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/shampoo/trace/trace_reading.h"

namespace shampoo::test {
namespace {

#ifdef SHAMPOO_TEST_ON_CUDA
/// Events have a resolution of half a microsecond.
constexpr double slack = 1;
#else
constexpr double slack = 0.002;
#endif

OptimizerOptions traced(const TemporaryFolder& folder) {
  return {.trace = (folder.path() / "traces").string()};
}

TEST(ATraceOfADevice, HasAllStepsThoughNobodyReadsTheirResults) {
  const TemporaryFolder folder;
  DeviceJob job(captured_recipe(), awkward_shapes(), {}, traced(folder));
  DeviceJob plain(captured_recipe());
  for (int step = 0; step < 9; ++step) {
    disturb(job, step);
    disturb(plain, step);
    job.optimizer->step();
    plain.optimizer->step();
  }
  EXPECT_EQ(job.values(), plain.values());
  EXPECT_EQ(job.state(), plain.state());
  job.model.new_gradients();
  job.optimizer->step();
  job.optimizer.reset();

  const std::vector<TracedEvent> events = read_trace(folder);
  expect_phases_in_steps(events, 10, slack);
  EXPECT_EQ(tracks_of(events, 11), std::set<std::string>{});
  int refreshes = 0;
  for (const TracedEvent& event : events) {
    refreshes += event.track == "virtual group 0: roots";
    if (event.track != "step" || event.step == 10) continue;
    EXPECT_EQ(event.arguments.at("applied"), event.step != 8 && event.step != 9) << event.step;
  }
  EXPECT_GT(refreshes, 0);
  EXPECT_LT(refreshes, 10);
}

TEST(ATraceOfADevice, HasReplayedSteps) {
  const TemporaryFolder folder;
  Recipe recipe = captured_recipe();
  recipe.refresh.every = 25;
  DeviceJob job(recipe, awkward_shapes(), {}, traced(folder));
  std::optional<Graph> graph;
  std::set<std::int64_t> refreshed;
  for (int step = 1; step <= 6; ++step) {
    job.model.new_gradients();
    job.optimizer->prepare_step();
    if (job.optimizer->refresh_is_due()) {
      refreshed.insert(step);
      job.optimizer->enqueue_step();
      continue;
    }
    if (!graph) graph = capture(job);
    job.device.replay(*graph);
  }
  job.optimizer.reset();

  const std::vector<TracedEvent> events = read_trace(folder);
  expect_phases_in_steps(events, 6, slack);
  EXPECT_TRUE(graph);
  EXPECT_FALSE(refreshed.empty());
  for (int step = 1; step <= 6; ++step) {
    EXPECT_TRUE(tracks_of(events, step).contains("virtual group 0: update")) << step;
    EXPECT_EQ(tracks_of(events, step).contains("virtual group 0: roots"), refreshed.contains(step))
        << step;
  }
}

TEST(ADeviceWithoutATrace, IsMeasuredWhereItIsAskedFor) {
  for (const bool asked : {false, true}) {
    DeviceJob job(captured_recipe(), awkward_shapes(), {}, {.time_phases = asked});
    for (int step = 0; step < 3; ++step) job.optimizer->step();
    EXPECT_EQ(job.optimizer->describe().find("step, mean of 3") != std::string::npos, asked);
  }
}

}  // namespace
}  // namespace shampoo::test
