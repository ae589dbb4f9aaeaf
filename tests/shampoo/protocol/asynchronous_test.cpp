// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "tests/shampoo/protocol/device_job.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

/// A recipe without refreshes after the second step.
Recipe calm_recipe() {
  Recipe recipe = quick_recipe();
  recipe.refresh = {.every = 1000000, .first = 2};
  recipe.averaging = Momentum{};
  return recipe;
}

const float infinity = std::numeric_limits<float>::infinity();

TEST(AnAsynchronousStep, ReturnsWhileNothingHasRun) {
  DeviceJob job(calm_recipe());
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  job.backend.synchronize();

  const StepResult result = job.optimizer->step();

  EXPECT_GT(job.device.pending(), 5u);
  EXPECT_TRUE(result.applied());
  EXPECT_EQ(job.device.pending(), 0u);
  EXPECT_GT(result.gradient_norm(), 0);
}

TEST(AnAsynchronousStep, IsWaitedForByTheNextPrepareStepButNotWhatCameBehindIt) {
  DeviceJob job(calm_recipe());
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  job.model.send_gradients();  // the backward pass of the next step
  const std::size_t behind = job.model.tensors.size();

  job.optimizer->prepare_step();

  EXPECT_EQ(job.device.pending(), behind + 1) << "and the upload of what changed";
}

TEST(AnAsynchronousOptimizer, TrainsLikeTheOneOnTheCpu) {
  const Recipe recipe = quick_recipe();
  DeviceJob job(recipe);
  ToyModel<float> model(awkward_shapes());
  const auto cpu = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  Optimizer optimizer(*cpu, *ranks, {model.group(recipe)});
  double largest = 0;
  for (int step = 0; step < 6; ++step) {
    job.model.new_gradients();
    model.new_gradients();
    job.optimizer->step();
    optimizer.step();
  }
  const auto values = job.values();
  for (std::size_t t = 0; t < values.size(); ++t)
    for (std::size_t i = 0; i < values[t].size(); ++i)
      largest = std::max<double>(largest, std::abs(values[t][i] - model.tensors[t].value[i]));
  // Values move by up to 7.8e-3. With a relative floor of 1e-7 the smallest eigenvalues, of
  // rank-deficient factors, are noise of the solver; measured: 9e-5.
  EXPECT_LT(largest, 5e-4);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 6);
}

TEST(AnAsynchronousRefusal, IsLearntByReadingOrByTheNextStepAndMovesNoCounter) {
  DeviceJob job(calm_recipe());
  DeviceJob undisturbed(calm_recipe());
  job.optimizer->step();
  undisturbed.optimizer->step();
  const float kept = std::exchange(job.model.tensors[5].gradient[1], infinity);
  job.model.send_gradients();

  const StepResult refused = job.optimizer->step();

  job.model.tensors[5].gradient[1] = kept;
  job.model.send_gradients();
  job.optimizer->step();
  undisturbed.optimizer->step();
  EXPECT_FALSE(refused.applied()) << "read later";
  EXPECT_EQ(refused.non_finite_gradient(), "tensor5");
  EXPECT_EQ(job.optimizer->steps("tensor0"), 2);
  EXPECT_EQ(job.optimizer->statistics().skipped_steps, 1);
  EXPECT_EQ(job.optimizer->statistics().applied_steps, 2);
  EXPECT_EQ(job.values(), undisturbed.values());
  EXPECT_EQ(job.state(), undisturbed.state());
}

TEST(AnAsynchronousError, IsThrownOnceByReadingTheResultOrByTheNextPrepareStep) {
  for (const bool reads : {false, true}) {
    DeviceJob job(calm_recipe(), awkward_shapes(), {}, {.non_finite = NonFinite::error});
    job.optimizer->step();
    const float kept = std::exchange(job.model.tensors[5].gradient[1], infinity);
    job.model.send_gradients();
    const StepResult result = job.optimizer->step();
    EXPECT_EQ(job.optimizer->statistics().skipped_steps, 1) << "which throws nothing";
    job.model.tensors[5].gradient[1] = kept;
    job.model.send_gradients();

    const auto read = [&] { return error_of<NumericalError>([&] { (void)result.applied(); }); };
    if (reads) {
      EXPECT_NE(read().find("tensor5"), std::string::npos);
    } else {
      EXPECT_NE(error_of<NumericalError>([&] { job.optimizer->prepare_step(); }).find("tensor5"),
                std::string::npos);
    }
    EXPECT_TRUE(job.optimizer->step().applied());
    EXPECT_NE(read(), "") << "the result stays what it was";
  }
}

TEST(AResult, CanBeReadAfterItsOptimizerIfItWasKnown) {
  std::optional<StepResult> known, unknown;
  {
    DeviceJob job(calm_recipe());
    known = job.optimizer->step();
    unknown = job.optimizer->step();
  }
  EXPECT_TRUE(known->applied());
  EXPECT_THROW((void)unknown->applied(), std::logic_error);
}

TEST(AnAsynchronousBadRate, IsThrownBeforeAnythingChanged) {
  DeviceJob job(calm_recipe());
  job.optimizer->step();
  const auto before = job.values();
  job.optimizer->group(1).rates.beta1 = 1;
  EXPECT_THROW(job.optimizer->step(), std::invalid_argument);
  EXPECT_EQ(job.values(), before);
  job.optimizer->group(1).rates.beta1 = 0.5;
  EXPECT_TRUE(job.optimizer->step().applied());
}

TEST(AnAsynchronousStep, GetsNoMemoryAndUploadsOnceAfterTheFirst) {
  DeviceJob job(calm_recipe());
  for (int step = 0; step < 2; ++step) job.optimizer->step();  // the second refreshes
  for (int step = 0; step < 5; ++step) {
    job.optimizer->group(0).rates.learning_rate *= 0.5;
    job.optimizer->group(1).rates.weight_decay += 0.125;
    job.set_present(4, step % 2 == 0);
    const std::int64_t allocations = job.device.allocations(), uploads = job.backend.uploads;
    job.optimizer->step();
    EXPECT_EQ(job.device.allocations(), allocations);
    EXPECT_EQ(job.backend.uploads, uploads + 1);
  }
}

TEST(AnAsynchronousStep, UploadsNothingWhereNothingChanged) {
  Recipe recipe = calm_recipe();
  recipe.bias_correction = false;
  recipe.grafting = Sgd{};
  DeviceJob job(recipe);
  for (int step = 0; step < 3; ++step) job.optimizer->step();
  const std::int64_t uploads = job.backend.uploads;
  for (int step = 0; step < 4; ++step) job.optimizer->step();
  EXPECT_EQ(job.backend.uploads, uploads);
  EXPECT_EQ(job.optimizer->steps("tensor0"), 7);
}

TEST(AnOptimizerOnADevice, ReservesWhatItsSolverCalls) {
  const auto job_with = [](const Solver& solver) {
    Recipe recipe = quick_recipe();
    recipe.preconditioner = RootInverse{.solver = solver};
    return std::make_unique<DeviceJob>(recipe);
  };
  EXPECT_EQ(job_with(Minimax{})->device.decomposable(), 0);
  EXPECT_EQ(job_with(Automatic{})->device.decomposable(), 0);
  EXPECT_GT(job_with(Eigen{})->device.decomposable(), 0);
  EXPECT_GT(job_with(CoupledNewton{})->device.decomposable(), 0) << "where the iteration diverges";
}

TEST(AnOptimizerOnADevice, KnowsAllMemoryThatItUses) {
  for (const Solver& solver : {Solver(Minimax{}), Solver(Eigen{})}) {
    Recipe recipe = quick_recipe();
    recipe.preconditioner = RootInverse{.solver = solver};
    DeviceJob job(recipe);
    std::int64_t model = 0;
    for (const auto& tensor : job.model.tensors)
      model += 2 * static_cast<std::int64_t>(tensor.value.size() * sizeof(float));
    const kernels::MemoryUse use = job.backend.memory_use();

    const std::int64_t known =
        model + job.optimizer->state_bytes() + job.optimizer->workspace_bytes() + use.scratch;
    EXPECT_GE(use.pool, known);
    // The device allocates multiples of 256 bytes.
    EXPECT_LE(use.pool, known + 255 * job.device.allocations());
    EXPECT_GT(use.scratch, 0);
    EXPECT_GT(use.host, 0);
    const std::string text = job.optimizer->describe();
    EXPECT_NE(text.find("its backend has scratch memory of "), std::string::npos) << text;
    EXPECT_NE(text.find(" on the host for copies, and holds "), std::string::npos) << text;
  }
}

TEST(AnOptimizerOnADevice, LeavesNoMemoryOfItsEngineBeforeAGroupWasAddedToThePool) {
  DeviceJob job(quick_recipe(), {{64, 64}, {64, 64}});
  ToyModel<float> other({{3}}, 2, &job.device_backend);
  ParameterGroup added{.recipe = quick_recipe()};
  added.parameters.push_back(other.parameter(std::size_t{0}));
  added.parameters[0].name = "added";
  const std::int64_t before = job.backend.memory_use().pool;

  job.optimizer->add_group(added);

  EXPECT_LT(job.backend.memory_use().pool - before, job.optimizer->state_bytes() / 4);
}

/// Launches of one step without a refresh and of one with a refresh, but for decompositions.
std::pair<std::int64_t, std::int64_t> launches(const Solver& solver, const DeviceJob::Shapes& layer,
                                               int layers, int groups) {
  DeviceJob::Shapes shapes;
  for (int i = 0; i < layers; ++i) shapes.insert(shapes.end(), layer.begin(), layer.end());
  Recipe recipe = quick_recipe();
  recipe.preconditioner = RootInverse{.solver = solver};
  recipe.refresh = {.every = 1000000, .first = 2, .staggered = false};
  const int tensors = static_cast<int>(shapes.size());
  DeviceJob job(recipe, shapes, {}, {}, (tensors + groups - 1) / groups);
  EXPECT_EQ(job.optimizer->group_count(), groups);
  const auto of_step = [&] {
    job.backend.synchronize();
    const std::int64_t before = job.device.launches_beside_decompositions();
    job.optimizer->step();
    return job.device.launches_beside_decompositions() - before;
  };
  of_step();
  const std::int64_t with = of_step();
  return {of_step(), with};
}

TEST(LaunchesOfAStep, DoNotGrowWithGroupsOrLayers) {
  const DeviceJob::Shapes layer = {{9, 8}, {13}, {8, 9}, {3, 4, 5}};
  const auto one = launches(Minimax{}, layer, 1, 1);
  EXPECT_GT(one.second, one.first);
  EXPECT_EQ(launches(Minimax{}, layer, 10, 1), one);
  EXPECT_EQ(launches(Minimax{}, layer, 7, 28), one);
}

TEST(LaunchesOfAStep, AreTheSameForAThousandGroups) {
  const DeviceJob::Shapes layer = {{3, 2}, {2}};
  const auto one = launches(Eigen{}, layer, 5, 1);
  EXPECT_GT(one.second, one.first);
  EXPECT_EQ(launches(Eigen{}, layer, 50, 1), one);
  EXPECT_EQ(launches(Eigen{}, layer, 28, 28), one);
  EXPECT_EQ(launches(Eigen{}, layer, 500, 1000), one);
}

}  // namespace
}  // namespace shampoo::test
