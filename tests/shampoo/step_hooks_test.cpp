// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>

#include "tests/shampoo/state/state_job.h"

namespace shampoo::test {
namespace {

TEST(StepHooks, AreCalledAroundEveryStepInTheirOrder) {
  Alone alone;
  Optimizer& optimizer = *alone.job.optimizer;
  std::string calls;
  const auto note = [&](const std::string& name) {
    return StepHooks{.before = [&calls, name](Optimizer&) { calls += name + " before, "; },
                     .after =
                         [&calls, name](Optimizer& taken, StepResult& result) {
                           calls += name + (result.applied() ? " after " : " skipped ") +
                                    std::to_string(taken.steps("tensor1")) + ", ";
                         }};
  };
  const auto first = optimizer.on_step(note("a"));
  auto second = optimizer.on_step(note("b"));
  const auto none = optimizer.on_step({});
  alone.job.train(0, 1);
  EXPECT_EQ(calls, "a before, b before, a after 1, b after 1, ");
  calls.clear();
  second.reset();
  alone.job.model.tensors[0].gradient[0] = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(optimizer.step().applied());
  EXPECT_EQ(calls, "a before, a skipped 1, ");
}

TEST(StepHooks, MaySetRatesAndGradientsOfTheStep) {
  Alone hooked, plain;
  const auto hook = hooked.job.optimizer->on_step(
      {.before = [](Optimizer& optimizer) { optimizer.group(0).rates.learning_rate = 0.05; }});
  plain.job.optimizer->group(0).rates.learning_rate = 0.05;
  hooked.job.train(0, 3);
  plain.job.train(0, 3);
  EXPECT_EQ(hooked.job.values(), plain.job.values());
}

TEST(StepHooks, MayTransformAndDropGradientsBeforeTheyAreScanned) {
  run_ranks(3, [](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    ToyModel<float> hooked({{9, 8}, {13}, {5, 1}}), plain({{9, 8}, {13}, {5, 1}});
    Optimizer one(*backend, communicator, {hooked.group(quick_recipe())});
    Optimizer other(*backend, communicator, {plain.group(quick_recipe())});
    float factor = 2;
    const auto hook = one.on_step({.before = [&](Optimizer& optimizer) {
      for (auto& tensor : hooked.tensors)
        for (float& element : tensor.gradient) element *= factor;
      optimizer.group(0).set_gradient(1, nullptr);
    }});
    other.group(0).set_gradient(1, nullptr);
    for (int step = 0; step < 4; ++step) {
      hooked.new_gradients();
      plain.new_gradients();
      for (auto& tensor : plain.tensors)
        for (float& element : tensor.gradient) element *= 2;
      one.step();
      other.step();
    }
    EXPECT_EQ(hooked.values(), plain.values());
    factor = std::numeric_limits<float>::quiet_NaN();
    EXPECT_EQ(one.step().non_finite_gradient(), "tensor0");
  });
}

TEST(StepHooks, MaySeeScaledGradientsAtTheirTrueScale) {
  constexpr float scale = 1024;
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> hooked({{9, 8}, {13}}), plain({{9, 8}, {13}});
  Optimizer one(*backend, *ranks, {hooked.group(quick_recipe())},
                {.gradients = {.loss_scaling = FixedLossScale{scale}}});
  Optimizer other(*backend, *ranks, {plain.group(quick_recipe())});
  const auto add_one = [](ToyModel<float>& model) {
    for (auto& tensor : model.tensors)
      for (float& element : tensor.gradient) element += 1;
  };
  const auto hook = one.on_step({.before = [&](Optimizer& optimizer) {
    optimizer.unscale();
    add_one(hooked);
  }});
  for (int step = 0; step < 3; ++step) {
    hooked.new_gradients();
    plain.new_gradients();
    for (auto& tensor : hooked.tensors)
      for (float& element : tensor.gradient) element *= scale;
    add_one(plain);
    one.step();
    other.step();
  }
  EXPECT_EQ(hooked.values(), plain.values());
}

TEST(StepHooks, MayBeAddedAndRemovedInAHook) {
  Alone alone;
  Optimizer& optimizer = *alone.job.optimizer;
  int once = 0, added = 0;
  std::shared_ptr<const StepHooks> inner, outer;
  outer = optimizer.on_step({.before = [&](Optimizer& taken) {
    ++once;
    inner = taken.on_step({.after = [&](Optimizer&, StepResult&) { ++added; }});
    outer.reset();
  }});
  alone.job.train(0, 1);
  EXPECT_EQ(once, 1);
  const int in_the_first = added;
  alone.job.train(1, 3);
  EXPECT_EQ(once, 1);
  EXPECT_EQ(added, in_the_first + 2);
}

TEST(StepHooks, ThatThrowBeforeAStepStopItOnAllRanks) {
  run_ranks(3, [](Communicator& communicator) {
    Job<float> job(communicator, small, {.ranks = 3}, {.agree_before_commit = true});
    job.train(0, 1);
    const auto values = job.values();
    auto hook = job.optimizer->on_step({.before = [&](Optimizer&) {
      if (communicator.rank() == 1) throw std::runtime_error("out of patience");
    }});
    expect_says(error_of<std::exception>([&] { job.optimizer->step(); }),
                {"rank 1", "out of patience"});
    EXPECT_EQ(job.values(), values);
    hook.reset();
    job.train(1, 2);
    EXPECT_EQ(job.optimizer->steps("tensor0"), 2);
  });
}

TEST(StepHooks, ThatLeaveEvaluationValuesInPlaceStopTheStep) {
  run_ranks(2, [](Communicator& communicator) {
    Trainee averaged = small;
    averaged.recipes[0].averaging = PrimalAveraging{};
    Job<float> job(communicator, averaged, {.ranks = 2});
    job.train(0, 2);
    const auto values = job.values();
    std::optional<Evaluation> evaluation;
    auto hook = job.optimizer->on_step(
        {.before = [&](Optimizer& optimizer) { evaluation.emplace(optimizer.evaluate()); }});
    job.model.new_gradients();
    expect_says(error_of<std::logic_error>([&] { job.optimizer->step(); }),
                {"step", "the evaluation values are in place"});
    evaluation->end();
    EXPECT_EQ(job.values(), values);
    EXPECT_EQ(job.optimizer->steps("tensor0"), 2);
  });
}

TEST(AClosure, IsCalledOnceBeforeTheStepAndItsValueComesBack) {
  Alone closed, plain;
  int calls = 0;
  closed.job.model.new_gradients();
  const auto [loss, result] = closed.job.optimizer->step([&] {
    closed.job.model.new_gradients();
    ++calls;
    return 0.25f;
  });
  EXPECT_EQ(loss, 0.25f);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(result.applied());
  plain.job.model.new_gradients();
  plain.job.model.new_gradients();
  plain.job.optimizer->step();
  EXPECT_EQ(closed.job.values(), plain.job.values());
  EXPECT_TRUE(closed.job.optimizer->step([&] { ++calls; }).applied());
  float scaled = 2;
  EXPECT_EQ(closed.job.optimizer->step([&]() -> float& { return scaled; }).first, 2.0f);
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace shampoo::test
