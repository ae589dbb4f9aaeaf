// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>

#include "tests/shampoo/protocol/consensus_trainer.h"

namespace shampoo::test {
namespace {

TEST(ARateGoneBadOnOneRank, IsThrownByAllAndEndsTheOptimizer) {
  const Messages messages = messages_after<std::invalid_argument>(
      [](Trainer& trainer) {
        if (trainer.rank() == 1) trainer.optimizer.group(1).rates.learning_rate = nan;
      },
      false);
  expect_all_say(messages, {"step 3", "rank 1", "group 1", "learning_rate", "[0, 2^128)",
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

TEST(ANonFiniteGradientOnAllRanks, SkipsTheStepEverywhereAndChangesNothing) {
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

TEST(ANonFiniteGradientOnOneRank, ChangesNothingWhereTheyVote) {
  const Messages messages = messages_after<CommunicationError>(
      [](Trainer& trainer) {
        if (trainer.rank() == 2) trainer.model.tensors[1].gradient[3] = std::nanf("");
      },
      true, {.agree_before_commit = true});
  expect_all_say(messages, {"tensor1", "not finite on rank 2", "all are finite on ranks 0 and 1"});
}

TEST(GradientsThatWereNotAveraged, AreFoundBeforeAnythingChangesWhereTheyVote) {
  const Messages messages = messages_after<CommunicationError>(
      [](Trainer& trainer) {
        trainer.model.tensors[1].gradient[3] += static_cast<float>(trainer.rank());
      },
      true, {.agree_before_commit = true});
  expect_all_say(messages, {"do not have the same gradients", "on rank 0", "on rank 2"});
}

TEST(ValuesThatDiffer, AreNamedByTheFirstStep) {
  for (const bool votes : {false, true}) {
    Messages messages;
    run_ranks(ranks, [&](Communicator& communicator) {
      Trainer trainer(communicator, {.agree_before_commit = votes});
      if (trainer.rank() == 1) trainer.model.tensors[2].value[1] += 1e-6F;
      messages[communicator.rank()] =
          error_of<CommunicationError>([&] { trainer.optimizer.step(); });
      EXPECT_EQ(trainer.optimizer.failure().empty(), votes);
    });
    expect_all_say(messages, {"rank 1 has", "ranks 0 and 2 have", "parameter 'tensor2'",
                              "its value has the squared norm"});
  }
}

TEST(ValuesThatDiffer, AreFoundInEverySoManyStepsAndAfterALoad) {
  run_ranks(ranks, [&](Communicator& communicator) {
    Trainer often(communicator, {.compare_values_every = 2}), once(communicator);
    for (Trainer* const trainer : {&often, &once}) {
      trainer->optimizer.step();
      if (trainer->rank() == 0) trainer->model.tensors[0].value[0] += 1;
      EXPECT_TRUE(trainer->optimizer.step().applied());
    }
    EXPECT_NE(error_of<CommunicationError>([&] { often.optimizer.step(); }), "");
    EXPECT_TRUE(once.optimizer.step().applied());
    once.optimizer.load_state_dict(once.optimizer.full_state_dict());
    EXPECT_NE(error_of<CommunicationError>([&] { once.optimizer.step(); }), "");
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

}  // namespace
}  // namespace shampoo::test
