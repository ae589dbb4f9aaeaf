// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>

#include "distributor/communicator.h"
#include "tests/shampoo/protocol/failing_backend.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

constexpr int ranks = 3;

/// Trainer of one rank.
struct Trainer {
  explicit Trainer(Communicator& c, const OptimizerOptions& options = {})
      : communicator(c), optimizer(*backend, c, model.groups(quick_recipe(), {}), options) {}

  int rank() const { return communicator.rank(); }

  std::unique_ptr<kernels::Backend> backend = cpu_kernels({.threads = 1});
  ToyModel<float> model{{{9, 8}, {13}, {20, 3}}};
  Communicator& communicator;
  Optimizer optimizer;
};

using Messages = std::array<std::string, ranks>;

void expect_all_say(const Messages& messages, const std::vector<std::string>& parts) {
  for (const std::string& message : messages) {
    EXPECT_EQ(message, messages[0]);
    for (const std::string& part : parts)
      EXPECT_NE(message.find(part), std::string::npos) << "'" << part << "' in: " << message;
  }
}

/// Every rank trains two steps, then `spoil` acts, then a step throws the same Error on all.
template <typename Error>
Messages messages_after(const std::function<void(Trainer&)>& spoil, bool stays_usable,
                        const OptimizerOptions& options = {}) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator, options);
    trainer.optimizer.step();
    trainer.optimizer.step();
    const auto before = trainer.model.values();
    const auto state = state_of(trainer.optimizer, trainer.model);
    spoil(trainer);
    messages[trainer.rank()] = error_of<Error>([&] { trainer.optimizer.step(); });
    EXPECT_EQ(trainer.model.values(), before) << "rank " << trainer.rank();
    EXPECT_EQ(trainer.optimizer.steps("tensor0"), 2);
    if (stays_usable) {
      EXPECT_EQ(state_of(trainer.optimizer, trainer.model), state);
    }
    EXPECT_EQ(trainer.optimizer.failure(), stays_usable ? "" : messages[trainer.rank()]);

    // A disabled optimizer throws the same error again, without the other ranks.
    const Rates good;
    trainer.optimizer.group(1).rates = good;
    trainer.model.new_gradients();
    for (std::size_t t = 0; t < 3; ++t)
      trainer.optimizer.group(static_cast<int>(t))
          .set_gradient(0, trainer.model.tensors[t].gradient.data());
    if (stays_usable) {
      EXPECT_TRUE(trainer.optimizer.step().applied());
    } else {
      EXPECT_EQ(error_of<CommunicationError>([&] { trainer.optimizer.step(); }),
                messages[trainer.rank()]);
    }
  });
  return messages;
}

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

TEST(ARateGoneBadOnOneRank, IsThrownByAllAndEndsTheOptimizer) {
  const Messages messages = messages_after<std::invalid_argument>(
      [](Trainer& trainer) {
        if (trainer.rank() == 1) trainer.optimizer.group(1).rates.learning_rate = nan;
      },
      false);
  expect_all_say(messages, {"step 3", "rank 1", "group 1", "learning_rate", "[0, inf)",
                            "can no longer be used"});
}

TEST(ARateGoneBadOnAllRanks, IsThrownByAllAndChangesNothing) {
  const Messages messages = messages_after<std::invalid_argument>(
      [](Trainer& trainer) { trainer.optimizer.group(1).rates.beta2 = 2; }, true);
  expect_all_say(messages, {"group 1", "beta2", "[0, 1]"});
  EXPECT_EQ(messages[0].find("rank"), std::string::npos) << messages[0];
}

TEST(ARateGoneBadOnOneRank, LeavesAllUsableWhereTheyVote) {
  const Messages voted = messages_after<std::invalid_argument>(
      [](Trainer& trainer) {
        if (trainer.rank() == 2) trainer.optimizer.group(1).rates.epsilon = 0;
      },
      true, {.agree_before_commit = true});
  expect_all_say(voted, {"rank 2", "group 1", "epsilon"});
}

TEST(ARateThatDiffersOnOneRank, IsNamedWithTheRanks) {
  for (const bool votes : {false, true}) {
    const Messages messages = messages_after<CommunicationError>(
        [](Trainer& trainer) {
          if (trainer.rank() == 1) trainer.optimizer.group(1).rates.weight_decay = 0.25;
        },
        votes, {.agree_before_commit = votes});
    expect_all_say(messages, {"rank 1 has 'group 1: weight_decay 0.25'",
                              "ranks 0 and 2 have 'group 1: weight_decay 0'"});
  }
}

TEST(AGradientThatIsAbsentOnOneRank, IsNamedWithTheRanks) {
  for (const bool votes : {false, true}) {
    const Messages messages = messages_after<CommunicationError>(
        [](Trainer& trainer) {
          if (trainer.rank() == 0) trainer.optimizer.group(2).set_gradient(0, nullptr);
        },
        votes, {.agree_before_commit = votes});
    expect_all_say(messages, {"ranks 1 and 2 have", "parameter 'tensor2'", "rank 0 has", "absent"});
  }
}

TEST(ANonFiniteGradientOnAllRanks, RefusesTheStepEverywhereAndChangesNothing) {
  run_ranks(ranks, [](Communicator& communicator) {
    Trainer trainer(communicator);
    trainer.optimizer.step();  // the next one refreshes
    const auto before = trainer.model.values();
    const auto state = state_of(trainer.optimizer, trainer.model);
    const float kept = trainer.model.tensors[1].gradient[3];
    trainer.model.tensors[1].gradient[3] = std::numeric_limits<float>::infinity();

    const StepResult result = trainer.optimizer.step();

    EXPECT_FALSE(result.applied());
    EXPECT_EQ(result.non_finite_gradient(), "tensor1");
    EXPECT_EQ(trainer.model.values(), before);
    EXPECT_EQ(state_of(trainer.optimizer, trainer.model), state);
    trainer.model.tensors[1].gradient[3] = kept;
    EXPECT_TRUE(trainer.optimizer.step().applied());
  });
}

TEST(ANonFiniteGradientOnOneRank, IsAnErrorEverywhere) {
  const Messages messages = messages_after<CommunicationError>(
      [](Trainer& trainer) {
        if (trainer.rank() == 2) trainer.model.tensors[1].gradient[3] = std::nanf("");
      },
      false);
  expect_all_say(messages, {"tensor1", "not finite on rank 2", "all are finite on ranks 0 and 1"});
}

TEST(ANonFiniteGradientOnOneRank, RefusesTheStepEverywhereWhereTheyVote) {
  run_ranks(ranks, [](Communicator& communicator) {
    Trainer trainer(communicator, {.agree_before_commit = true});
    trainer.optimizer.step();
    const auto before = trainer.model.values();
    const auto state = state_of(trainer.optimizer, trainer.model);
    const float kept = trainer.model.tensors[1].gradient[3];
    // Each rank has another one; all report that of the first rank.
    if (trainer.rank() == 1) trainer.model.tensors[1].gradient[3] = std::nanf("");
    if (trainer.rank() == 2) trainer.model.tensors[2].gradient[0] = std::nanf("");
    const float other = 0.5F;

    const StepResult result = trainer.optimizer.step();

    EXPECT_FALSE(result.applied());
    EXPECT_EQ(result.non_finite_gradient(), "tensor1");
    EXPECT_EQ(trainer.model.values(), before);
    EXPECT_EQ(state_of(trainer.optimizer, trainer.model), state);
    trainer.model.tensors[2].gradient[0] = other;
    trainer.model.tensors[1].gradient[3] = kept;
    EXPECT_TRUE(trainer.optimizer.step().applied());
  });
}

TEST(GradientsThatDiffer, AreAnErrorEverywhere) {
  const Messages messages = messages_after<CommunicationError>(
      [](Trainer& trainer) {
        if (trainer.rank() == 1) trainer.model.tensors[0].gradient[0] += 1;
      },
      false);
  expect_all_say(messages, {"norm", "on rank 1", "on ranks 0 and 2", "average"});
}

TEST(AStepThatWasNotPreparedOnOneRank, IsAnErrorEverywhere) {
  Messages messages;
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer trainer(communicator);
    if (trainer.rank() != 1) trainer.optimizer.prepare_step();
    messages[trainer.rank()] =
        error_of<std::logic_error>([&] { trainer.optimizer.enqueue_step(); });
  });
  expect_all_say(messages, {"rank 1", "prepare_step()"});
}

TEST(ARankThatThrowsBetweenSteps, EndsTheOthersWithItsReason) {
  Messages messages;
  try {
    run_ranks(ranks, [&](Communicator& communicator) {
      Trainer trainer(communicator);
      trainer.optimizer.step();
      if (trainer.rank() == 1) throw std::runtime_error("out of images");
      messages[trainer.rank()] = error_of<CommunicationError>([&] { trainer.optimizer.step(); });
    });
    FAIL() << "the exception of rank 1 must be rethrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "out of images");
  }
  for (const int rank : {0, 2}) {
    EXPECT_NE(messages[rank].find("step 2"), std::string::npos) << messages[rank];
    EXPECT_NE(messages[rank].find("rank 1 threw: out of images"), std::string::npos)
        << messages[rank];
    EXPECT_NE(messages[rank].find("can no longer be used"), std::string::npos);
  }
}

TEST(ARankThatStalls, IsNamedWithinTheDeadline) {
  std::array<std::vector<int>, ranks> missing;
  std::atomic<bool> given_up = false;
  run_ranks(ranks, [&](Communicator& communicator) {
    communicator.set_deadline(std::chrono::milliseconds(300));
    Trainer trainer(communicator);
    trainer.optimizer.step();
    if (trainer.rank() == 1) {  // away until the others have given up
      while (!given_up) std::this_thread::yield();
      return;
    }
    try {
      trainer.optimizer.step();
    } catch (const CommunicationError& error) {
      missing[trainer.rank()] = error.missing_ranks();
      const std::string what = error.what();
      EXPECT_NE(what.find("step 2"), std::string::npos) << what;
      EXPECT_NE(what.find("all_gather"), std::string::npos) << what;
      EXPECT_NE(what.find("rank 1 did not take part within 0.3 s"), std::string::npos) << what;
      EXPECT_EQ(trainer.optimizer.failure(), what);
    }
    given_up = true;
  });
  EXPECT_EQ(missing[0], std::vector<int>{1});
  EXPECT_EQ(missing[2], std::vector<int>{1});
}

TEST(DifferentFaultsOnTwoRanks, AreBothReported) {
  const Messages messages = messages_after<std::invalid_argument>(
      [](Trainer& trainer) {
        if (trainer.rank() == 0) trainer.optimizer.group(1).rates.beta1 = 1;
        if (trainer.rank() == 2) trainer.optimizer.group(1).rates.epsilon = -1;
      },
      false);
  expect_all_say(messages, {"rank 0: group 1: beta1", "rank 2: group 1: epsilon"});
}

/// A rank whose kernels fail, or whose decompositions do.
struct FragileTrainer {
  explicit FragileTrainer(Communicator& c, int tolerated_failures = 0)
      : optimizer(backend, c, {model.group(recipe(tolerated_failures))}) {}

  static Recipe recipe(int tolerated_failures) {
    Recipe recipe = quick_recipe();
    recipe.refresh = {.every = 1, .first = 1};
    std::get<RootInverse>(recipe.preconditioner).tolerated_failures = tolerated_failures;
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

TEST(RefusedStepsInARow, AreThrownByAllRanksInTheSameStep) {
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
       {"rank 2 has 'group 1: recipe.blocking", "size=9", "ranks 0 and 1 have", "size=8"}},
      {[](auto& groups, auto&) { groups[2].parameters[0].name = "other"; },
       {"group 2, parameter 'other'", "group 2, parameter 'tensor2'"}},
      {[](auto& groups, auto&) { groups.pop_back(); }, {"group 2"}},
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
