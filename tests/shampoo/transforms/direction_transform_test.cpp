// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <stdexcept>

#include "tests/shampoo/preconditioners/all_kinds.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/shampoo/transforms/transformed_run.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

template <typename Real>
void scale(const DirectionBlock& block, Real factor) {
  auto* const p = static_cast<Real*>(block.data);
  for (std::int64_t i = 0; i < block.elements; ++i) p[i] *= factor;
}

Recipe recipe_of(const Preconditioner& kind) {
  Recipe recipe = quick_recipe();
  recipe.preconditioner = kind;
  if (std::holds_alternative<Adam>(kind)) recipe.grafting = Sgd{};
  return recipe;
}

class DirectionTransforms : public ::testing::TestWithParam<Preconditioner> {
 protected:
  TransformedRun<float> run(const std::function<void(const DirectionBlock&)>& transform) const {
    TransformedRun<float> run{recipe_of(GetParam()), {.learning_rate = 0.125}};
    if (takes_matrices_only(GetParam())) run.shapes = {{9, 8}, {20, 3}, {17, 1, 16}};
    run.options.transform_direction = transform;
    run.steps = 4;
    return run;
  }
};

TEST_P(DirectionTransforms, ThatDoNothingGiveTheSameBitsOnAnyNumberOfRanksMergedOrNot) {
  const auto expected = run({}).at(Place::cpu, 1);
  for (const int ranks : {1, 3})
    for (const bool merges : {true, false}) {
      TransformedRun<float> looked = run([](const DirectionBlock&) {});
      looked.options.merge_groups = merges;
      EXPECT_EQ(looked.at(Place::cpu, ranks), expected) << ranks << merges;
    }
}

TEST_P(DirectionTransforms, ActAfterGraftingAndBeforeTheLearningRate) {
  TransformedRun<float> twice = run({});
  twice.rates.learning_rate = 0.25;
  const auto doubled = run([](const DirectionBlock& block) { scale(block, 2.0f); });
  EXPECT_EQ(doubled.at(Place::cpu, 3), twice.at(Place::cpu, 1));
}

INSTANTIATE_TEST_SUITE_P(All, DirectionTransforms, testing::ValuesIn(all_kinds()), name_of_kind);

TEST(DirectionTransform, IsGivenEveryBlockOnceByItsOwner) {
  for (const int ranks : {1, 3}) {
    std::mutex mutex;
    std::map<std::string, std::int64_t> seen;
    TransformedRun<double> run{quick_recipe()};
    run.recipe.arithmetic = Arithmetic::float64;
    run.options.transform_direction = [&](const DirectionBlock& block) {
      EXPECT_EQ(block.type, Type::float64);
      EXPECT_EQ(block.elements, grouping::numel(block.box.extent));
      const std::lock_guard lock(mutex);
      seen[block.parameter.name] += block.elements;
    };
    run.at(Place::cpu, ranks);
    for (const auto& tensor : ToyModel<double>(run.shapes).tensors)
      EXPECT_EQ(seen[tensor.name], std::ssize(tensor.value)) << tensor.name << ranks;
  }
}

TEST(DirectionTransform, ThatBreaksADirectionKeepsTheBlockAndIsNamed) {
  run_ranks(3, [](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    ToyModel<float> model({{9, 8}, {13}, {8, 7}});
    Recipe recipe = quick_recipe();
    recipe.blocking.size = 16;
    Optimizer optimizer(*backend, communicator, {model.group(recipe)},
                        {.transform_direction = [](const DirectionBlock& block) {
                          if (block.parameter.name == "tensor1")
                            *static_cast<float*>(block.data) =
                                std::numeric_limits<float>::quiet_NaN();
                        }});
    const auto before = model.values();
    const StepResult result = optimizer.step();
    EXPECT_TRUE(result.applied());
    EXPECT_EQ(result.non_finite_direction(), "tensor1");
    const auto after = model.values();
    EXPECT_NE(after[0], before[0]);
    EXPECT_EQ(after[1], before[1]);
    EXPECT_NE(after[2], before[2]);
  });
}

TEST(DirectionTransform, ThatThrowsOnOneRankIsAnErrorOnAll) {
  run_ranks(3, [](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    ToyModel<float> model(awkward_shapes());
    Optimizer optimizer(*backend, communicator, {model.group(quick_recipe())},
                        {.transform_direction = [&](const DirectionBlock&) {
                          if (communicator.rank() == 1) throw std::runtime_error("no more noise");
                        }});
    const std::string error = error_of<std::exception>([&] { (void)optimizer.step().applied(); });
    EXPECT_NE(error.find("no more noise"), std::string::npos) << error;
    if (communicator.rank() != 1) {
      EXPECT_NE(error.find("rank 1"), std::string::npos) << error;
    }
    EXPECT_FALSE(optimizer.failure().empty());
  });
}

TEST(DirectionTransform, ThatThrowsOnOneRankAloneDisablesTheOptimizerUntilALoad) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> model({{4, 3}, {5}});
  std::vector<ParameterGroup> groups(2);
  groups[0] = {.parameters = {model.parameter(0)}, .recipe = quick_recipe()};
  groups[1] = {.parameters = {model.parameter(1)}, .recipe = recipes::adamw()};
  bool throws = true;
  Optimizer optimizer(*backend, *ranks, groups,
                      {.transform_direction = [&](const DirectionBlock& block) {
                        if (throws && block.parameter.name == "tensor1")
                          throw std::domain_error("no more noise");
                      }});
  const StateDict state = optimizer.state_dict();
  EXPECT_THROW(optimizer.step(), std::domain_error);
  EXPECT_EQ(error_of<std::domain_error>([&] { (void)optimizer.latest_result().applied(); }),
            "no more noise");
  throws = false;
  EXPECT_EQ(error_of<CommunicationError>([&] { optimizer.step(); }),
            "step 1: no more noise; the optimizer can no longer be used");
  optimizer.load_state_dict(state);
  EXPECT_TRUE(optimizer.step().applied());
}

TEST(DirectionTransform, ReadsTheOptimizerAsItWasBeforeTheStepAndCannotChangeIt) {
  const TemporaryFolder folder;
  for (const int ranks : {1, 3})
    run_ranks(ranks, [&](Communicator& communicator) {
      const auto backend = cpu_kernels({.threads = 1});
      ToyModel<float> model(awkward_shapes()), same(awkward_shapes());
      Optimizer* reading = nullptr;
      std::int64_t steps = 0;
      const std::function<void()> refused[] = {[&] { reading->step(); },
                                               [&] { reading->enqueue_step(); },
                                               [&] { reading->state_dict(); },
                                               [&] { reading->full_state_dict(); },
                                               [&] { (void)reading->evaluate(); },
                                               [&] { reading->average_gradients(); },
                                               [&] { reading->zero_gradients(); },
                                               [&] { save(*reading, folder.path()); },
                                               [&] { reading->load_state_dict({}); }};
      Optimizer optimizer(*backend, communicator, {model.group(quick_recipe())},
                          {.transform_direction = [&](const DirectionBlock& block) {
                            EXPECT_EQ(reading->steps(block.parameter.name), steps);
                            EXPECT_EQ(reading->loss_scale(), 1);
                            for (const auto& call : refused)
                              EXPECT_EQ(
                                  error_of<std::logic_error>(call),
                                  "transform_direction must not change or save the optimizer");
                          }});
      Optimizer other(*backend, communicator, {same.group(quick_recipe())});
      reading = &optimizer;
      for (; steps < 4; ++steps) {
        const StepResult result = optimizer.step();
        EXPECT_TRUE(result.applied());
        EXPECT_EQ(result.gradient_norm(), other.step().gradient_norm());
      }
      EXPECT_EQ(model.values(), same.values());
    });
}

TEST(DirectionTransform, IsSetOnAllRanksOrNone) {
  run_ranks(3, [](Communicator& communicator) {
    const auto backend = cpu_kernels({.threads = 1});
    ToyModel<float> model({{4, 3}});
    OptimizerOptions options;
    if (communicator.rank() == 2) options.transform_direction = [](const DirectionBlock&) {};
    const std::string error = error_of<CommunicationError>(
        [&] { Optimizer(*backend, communicator, {model.group()}, options); });
    EXPECT_NE(error.find("transform_direction"), std::string::npos) << error;
  });
}

}  // namespace
}  // namespace shampoo::test
