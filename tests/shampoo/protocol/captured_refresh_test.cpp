// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// A stack of two blocks, blocks of one, two and three dimensions; scalars have no factors.
const DeviceJob::Shapes few_factors = {{}, {1}, {16}, {1, 7}, {5, 4}, {1}, {}, {1}, {1}, {3, 4, 5}};

/// Replays the steps that a graph serves: one of a usual refresh, or, if `all`, of a large one.
struct RefreshReplays {
  void step(DeviceJob& job) {
    Optimizer& optimizer = *job.optimizer;
    optimizer.prepare_step();
    const bool large = optimizer.refresh_is_large();
    refreshes += optimizer.refresh_is_due();
    larges += large;
    if (!graph && optimizer.refresh_is_due() && large == all) graph = capture(job);
    if (!graph || (large && !all)) {
      optimizer.enqueue_step();
      return;
    }
    job.device.replay(*graph);
    ++count;
  }
  bool all = false;
  std::optional<Graph> graph = {};
  int refreshes = 0, larges = 0, count = 0;
};

TEST(ACapturedStep, WithARefreshServesOthersWithTheBitsOfPlainSteps) {
  struct Case {
    bool staggers, merges, all;
    std::optional<std::int64_t> direction_bytes = {};
  };
  for (const auto [staggers, merges, all, direction_bytes] :
       {Case{false, true, false}, Case{true, true, false}, Case{true, false, true},
        Case{true, true, false, 0}, Case{true, true, true, 700}}) {
    Recipe queued = captured_recipe(Minimax{});
    queued.refresh.staggered = staggers;
    DeviceJob plain(queued, few_factors);
    DeviceJob replayed(queued, few_factors, {},
                       {.merge_groups = merges, .direction_bytes = direction_bytes});
    RefreshReplays replays{.all = all};
    for (int step = 0; step < 20; ++step) {
      disturb(plain, step);
      disturb(replayed, step);
      plain.optimizer->step();
      replays.step(replayed);
    }
    EXPECT_GE(replays.refreshes, 5);
    EXPECT_GE(replays.count, 12);
    EXPECT_EQ(replays.larges > 0, staggers);
    EXPECT_EQ(replayed.values(), plain.values());
    EXPECT_EQ(replayed.state(), plain.state());
    const Statistics a = replayed.optimizer->statistics(), b = plain.optimizer->statistics();
    EXPECT_EQ(a.refreshes, b.refreshes);
    EXPECT_GT(a.refreshes, 0);
    EXPECT_EQ(a.skipped_steps, 2);
    EXPECT_EQ(a.kept_roots, 0);
  }
}

Recipe minimax_recipe() {
  Recipe minimax = captured_recipe(Minimax{});
  minimax.refresh = {.every = 4, .first = 4};
  return minimax;
}

/// Ten blocks of one shape, of which two or three are due at a time, each in four steps.
const DeviceJob::Shapes ten_equal(10, {5, 4});

/// Captures a step after some that are not. Expects it to multiply as many matrices as they did at
/// most, and none of them to be large. Returns how many.
std::int64_t expect_only_due_work(DeviceJob& job) {
  Optimizer& optimizer = *job.optimizer;
  std::int64_t most = 0, captured = 0;
  for (int step = 0; step <= 8; ++step) {
    optimizer.prepare_step();
    EXPECT_TRUE(optimizer.refresh_is_due());
    EXPECT_FALSE(optimizer.refresh_is_large());
    std::int64_t before = job.backend.products;
    if (step == 8) {
      capture(job);
      captured = job.backend.products - before;
      before = job.backend.products;
    }
    optimizer.enqueue_step();
    most = std::max(most, job.backend.products - before);
  }
  EXPECT_GT(most, 0);
  EXPECT_EQ(captured, most);
  return captured;
}

TEST(ACapturedStep, MultipliesNoMoreMatricesThanAreDueAtATimeWhateverTheChunks) {
  DeviceJob job(minimax_recipe(), ten_equal);
  const std::int64_t matrices = expect_only_due_work(job);
  for (const std::int64_t bytes : {0, 700}) {
    DeviceJob in_chunks(minimax_recipe(), ten_equal, {}, {.direction_bytes = bytes});
    EXPECT_EQ(expect_only_due_work(in_chunks), matrices) << bytes;
  }
}

TEST(ACapturedStep, MultipliesNoMoreMatricesWhereAGroupHasJoinedLate) {
  for (const int late : {0, 2}) {
    DeviceJob job(minimax_recipe(), ten_equal);
    for (int step = 0; step < late; ++step) job.optimizer->step();
    // The phases of its two blocks even out those of the others only where it is not late.
    ToyModel<float> joined({{5, 4}, {5, 4}}, 2, &job.device_backend);
    ParameterGroup group{.recipe = minimax_recipe()};
    for (std::size_t t = 0; t < joined.tensors.size(); ++t) {
      group.parameters.push_back(joined.parameter(t));
      group.parameters.back().name += " of another group";
    }
    job.optimizer->add_group(group);
    expect_only_due_work(job);
  }
}

TEST(AReplay, OfAUsualRefreshWhereALargeOneIsDueIsAnErrorAndChangesNothing) {
  DeviceJob job(minimax_recipe(), ten_equal), undisturbed(minimax_recipe(), ten_equal);
  std::optional<Graph> graph;
  for (int step = 0;; ++step) {
    ASSERT_LT(step, 12);
    // Some tensors take every second step.
    for (DeviceJob* one : {&job, &undisturbed})
      for (std::size_t t = 0; t < ten_equal.size(); t += 4) one->set_present(t, step % 2 == 0);
    job.optimizer->prepare_step();
    if (job.optimizer->refresh_is_large()) break;
    if (!graph && job.optimizer->refresh_is_due()) graph = capture(job);
    graph ? job.device.replay(*graph) : static_cast<void>(job.optimizer->enqueue_step());
    undisturbed.optimizer->step();
  }
  ASSERT_TRUE(graph);
  const auto values = job.values();
  job.device.replay(*graph);
  EXPECT_NE(error_of<std::logic_error>([&] { job.optimizer->prepare_step(); }).find("smaller"),
            std::string::npos);
  EXPECT_EQ(job.values(), values);
  EXPECT_EQ(job.optimizer->failure(), "");
  job.optimizer->step();
  undisturbed.optimizer->step();
  EXPECT_EQ(job.values(), undisturbed.values());
  EXPECT_EQ(job.state(), undisturbed.state());
}

TEST(ACapturedStep, ServesTheStepsOfTwoSolversWhereNeitherHasHostSteps) {
  Recipe queued = captured_recipe(Minimax{}), hosted = captured_recipe(Eigen{});
  queued.refresh = {.every = 2, .first = 1, .staggered = false};
  hosted.refresh = {.every = 5, .first = 5, .staggered = false};
  DeviceJob plain(queued, {{5, 4}}), job(queued, {{5, 4}});
  ToyModel<float> plain_other({{5, 4}}, 2, &plain.device_backend);
  ToyModel<float> other({{5, 4}}, 2, &job.device_backend);
  const auto add = [&](Optimizer& optimizer, ToyModel<float>& model) {
    ParameterGroup group{.parameters = {model.parameter(0)}, .recipe = hosted};
    group.parameters[0].name = "other";
    optimizer.add_group(group);
  };
  add(*plain.optimizer, plain_other);
  add(*job.optimizer, other);
  std::optional<Graph> graphs[2];
  int enqueued = 0;
  for (int step = 1; step <= 12; ++step) {
    plain.optimizer->step();
    job.optimizer->prepare_step();
    const bool has_host_steps = job.optimizer->refresh_has_host_steps();
    EXPECT_EQ(has_host_steps, step % 5 == 0) << step;
    ASSERT_FALSE(job.optimizer->refresh_is_large());
    if (has_host_steps) {
      job.optimizer->enqueue_step();
      ++enqueued;
      continue;
    }
    auto& graph = graphs[job.optimizer->refresh_is_due() ? 1 : 0];
    if (!graph) graph = capture(job);
    job.device.replay(*graph);
    EXPECT_TRUE(job.optimizer->latest_result().applied()) << step;
  }
  EXPECT_EQ(enqueued, 2);
  EXPECT_EQ(job.values(), plain.values());
  EXPECT_EQ(other.values(), plain_other.values());
  EXPECT_EQ(job.state(), plain.state());
}

TEST(AReplay, WhereARefreshHasHostStepsIsAnErrorThatSaysSo) {
  Recipe recipe = captured_recipe(Eigen{});
  recipe.refresh = {.every = 2, .first = 2, .staggered = false};
  DeviceJob job(recipe, {{5, 4}});
  job.optimizer->prepare_step();
  const Graph graph = capture(job);
  job.device.replay(graph);
  job.optimizer->prepare_step();
  EXPECT_NE(error_of<std::logic_error>([&] { capture(job); }).find("refresh_has_host_steps()"),
            std::string::npos);
  job.device.replay(graph);
  const std::string error = error_of<std::logic_error>([&] { job.optimizer->prepare_step(); });
  EXPECT_NE(error.find("refresh_has_host_steps()"), std::string::npos) << error;
}

}  // namespace
}  // namespace shampoo::test
