// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/protocol/consensus_trainer.h"
#include "tests/shampoo/protocol/failing_backend.h"

namespace shampoo::test {
namespace {

/// A rank whose kernels fail, or whose decompositions do.
struct FragileTrainer {
  explicit FragileTrainer(Communicator& c, int tolerated_failures = 0)
      : optimizer(backend, c, {model.group(recipe(tolerated_failures))}) {}

  static Recipe recipe(int tolerated_failures) {
    Recipe recipe = quick_recipe();
    recipe.refresh = {.every = 1, .first = 1};
    auto& roots = std::get<RootInverse>(recipe.preconditioner);
    roots.solver = Eigen{};
    roots.tolerated_failures = tolerated_failures;
    return recipe;
  }

  std::unique_ptr<kernels::Backend> cpu = cpu_kernels({.threads = 1});
  FailingBackend backend{*cpu};
  ToyModel<float> model{{{8, 8}, {8, 8}, {5, 7}}};
  Optimizer optimizer;
};

TEST(AKernelThatThrowsOnOneRank, IsThrownByAllAndEndsTheOptimizer) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    const int rank = communicator.rank();
    FragileTrainer trainer(communicator);
    trainer.optimizer.step();
    const auto before = trainer.model.values();
    // Only one rank owns the block with a side of 5.
    trainer.backend.fails = [](const kernels::SquareMatrixBatch& group, auto, auto) -> bool {
      if (group.side == 5) throw DeviceError("the device is lost");
      return false;
    };
    messages[rank] = error_of<DeviceError>([&] { trainer.optimizer.step(); });
    EXPECT_EQ(trainer.model.values(), before);
    EXPECT_EQ(error_of<CommunicationError>([&] { trainer.optimizer.step(); }), messages[rank]);
    ToyModel<float> more({{4, 4}});
    more.tensors[0].name = "later";
    EXPECT_THROW(trainer.optimizer.add_group(more.group(quick_recipe())), CommunicationError);
  });
  expect_all_say(messages, {"step 2: rank ", "the device is lost", "can no longer be used"});
}

TEST(AFailedDecomposition, DoesNotHideThatRanksDiffer) {
  const std::vector<std::function<void(FragileTrainer&)>> differences = {
      [](FragileTrainer& t) { t.model.tensors[0].gradient[0] = std::nanf(""); },
      [](FragileTrainer& t) { t.optimizer.group(0).set_gradient(1, nullptr); },
      [](FragileTrainer& t) { t.optimizer.group(0).rates.learning_rate = 0.5; },
  };
  for (const auto& spoil : differences) {
    Messages messages;
    run_ranks(ranks, [&](Communicator& communicator) {
      FragileTrainer trainer(communicator);
      trainer.optimizer.step();
      const auto before = trainer.model.values();
      trainer.backend.fails = [](const kernels::SquareMatrixBatch& group, auto, auto) {
        return group.side == 5;
      };
      if (communicator.rank() == 1) spoil(trainer);
      messages[communicator.rank()] =
          error_of<CommunicationError>([&] { trainer.optimizer.step(); });
      EXPECT_EQ(trainer.model.values(), before);
    });
    expect_all_say(messages, {"the ranks do not have the same", "can no longer be used"});
  }
}

TEST(SkippedStepsInARow, AreThrownByAllRanksInTheSameStep) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator, {.skipped_in_a_row = 2});
    trainer.model.tensors[0].gradient[0] = std::nanf("");
    EXPECT_FALSE(trainer.optimizer.step().applied());
    messages[communicator.rank()] = error_of<NumericalError>([&] { trainer.optimizer.step(); });
    trainer.model.tensors[0].gradient[0] = 1;
    EXPECT_TRUE(trainer.optimizer.step().applied());
  });
  expect_all_say(messages, {"tensor0", "2 steps in a row"});
}

TEST(RanksAtDifferentCalls, AreDistinguishedAndEnd) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    // With a vote the first collective of a step looks like that of add_group().
    Trainer trainer(communicator, {.agree_before_commit = true});
    ToyModel<float> more({{4, 4}});
    more.tensors[0].name = "later";
    messages[communicator.rank()] = error_of<CommunicationError>([&] {
      if (communicator.rank() == 1)
        trainer.optimizer.add_group(more.group(quick_recipe()));
      else
        trainer.optimizer.step();
    });
    EXPECT_NE(trainer.optimizer.failure(), "");
  });
  for (const std::string& message : messages)
    EXPECT_NE(message.find("adding groups on rank 1, step 1 on ranks 0 and 2"), std::string::npos)
        << message;
}

TEST(PlansThatDiffer, AreRefusedByAllWithTheFirstDifference) {
  struct Case {
    std::function<void(std::vector<ParameterGroup>&, OptimizerOptions&)> change;
    std::vector<std::string> parts;
  };
  const std::vector<Case> cases = {
      {[](auto& groups, auto&) { groups[1].recipe.blocking.size = 9; },
       {"rank 2 has 'group 1: recipe.blocking", "size 9", "ranks 0 and 1 have", "size 8"}},
      {[](auto& groups, auto&) { groups[2].parameters[0].name = "other"; },
       {"group 2, parameter 'other'", "group 2, parameter 'tensor2'"}},
      {[](auto& groups, auto&) {
         groups[0].parameters[0].gradient.strides = {1, 9};
       },
       {"rank 2 has 'group 0, parameter 'tensor0'", "gradient float32 with strides (1, 9)"}},
      {[](auto& groups, auto&) { groups.pop_back(); },
       {"rank 2 has '2 groups'", "ranks 0 and 1 have '3 groups'"}},
      {[](auto& groups, auto&) { groups[1].rates.weight_decay = 0.5; },
       {"rank 2 has 'group 1: weight_decay 0.5'", "ranks 0 and 1 have 'group 1: weight_decay 0'"}},
      {[](auto&, auto& options) { options.non_finite = NonFinite::ignore; },
       {"non_finite ignore", "non_finite skip"}},
  };
  for (const Case& c : cases) {
    Messages messages;
    run_ranks(ranks, [&](Communicator& communicator) {
      const auto backend = cpu_kernels({.threads = 1});
      ToyModel<float> model({{9, 8}, {13}, {20, 3}});
      auto groups = model.groups(quick_recipe(), {});
      OptimizerOptions options;
      if (communicator.rank() == 2) c.change(groups, options);
      messages[communicator.rank()] =
          error_of<CommunicationError>([&] { Optimizer(*backend, communicator, groups, options); });
    });
    expect_all_say(messages, c.parts);
  }
}

/// A backend that reports another arithmetic.
class OtherBackend : public CountingBackend {
 public:
  using CountingBackend::CountingBackend;
  std::string arithmetic() const override { return "cpu, 3-bit vectors"; }
};

TEST(BackendsThatComputeDifferently, AreRefusedByAll) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    const auto cpu = cpu_kernels({.threads = 1});
    OtherBackend other(*cpu);
    kernels::Backend& backend = communicator.rank() == 0 ? other : *cpu;
    ToyModel<float> model({{9, 8}});
    messages[communicator.rank()] = error_of<CommunicationError>(
        [&] { Optimizer(backend, communicator, {model.group(quick_recipe())}); });
  });
  expect_all_say(messages, {"rank 0 has 'arithmetic: cpu, 3-bit vectors'", "ranks 1 and 2 have"});
}

TEST(AGroupThatIsBad, LeavesAPreparedStepAsItWas) {
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator);
    trainer.optimizer.prepare_step();
    ToyModel<float> more({{4, 4}});
    EXPECT_THROW(trainer.optimizer.add_group(more.group(quick_recipe(), {.beta1 = 2})),
                 std::invalid_argument);
    EXPECT_TRUE(trainer.optimizer.enqueue_step().applied());
  });
}

TEST(AGroupThatIsBadOnOneRank, IsRefusedByAllAndLeavesTheOptimizerAsItWas) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator);
    ToyModel<float> more({{4, 4}});
    more.tensors[0].name = "later";
    ParameterGroup group = more.group(quick_recipe());
    if (trainer.rank() == 0) group.rates.learning_rate = -1;
    messages[trainer.rank()] =
        error_of<std::invalid_argument>([&] { trainer.optimizer.add_group(group); });
    EXPECT_EQ(trainer.optimizer.group_count(), 3);
    EXPECT_TRUE(trainer.optimizer.step().applied());
  });
  expect_all_say(messages, {"rank 0: group 3", "learning_rate"});
}

}  // namespace
}  // namespace shampoo::test
