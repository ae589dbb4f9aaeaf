// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <optional>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

const std::string in_place =
    ": the evaluation values are in place; end the Evaluation first, in C by "
    "shampoo_end_evaluation()";

Trainee with_iterates() {
  Trainee trainee = small;
  trainee.recipes[0].averaging = PrimalAveraging{};
  return trainee;
}

TEST(Evaluating, RefusesWhateverReadsOrWritesTrainingValuesOnAllRanks) {
  const TemporaryFolder folder;
  for (const int ranks : {1, 3})
    run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      Job<float> job(communicator, with_iterates(), {}, {}, &backend);
      Optimizer& optimizer = *job.optimizer;
      job.train(0, 3);
      StateDict before = optimizer.full_state_dict();
      const auto training = job.values();
      Evaluation guard = optimizer.evaluate();
      const auto evaluated = job.values();
      EXPECT_NE(evaluated, training);

      const auto refused = [&](const std::string& call, const std::function<void()>& body) {
        EXPECT_EQ(error_of<std::logic_error>(body), call + in_place);
        EXPECT_EQ(job.values(), evaluated) << call;
      };
      // Several ranks count the attempt.
      const bool alone = ranks == 1;
      refused(alone ? "step" : "step 4: step", [&] { optimizer.step(); });
      refused(alone ? "step" : "step 5: step", [&] { optimizer.enqueue_step(); });
      if (!alone) before.progress.attempts += 2;
      refused("evaluate", [&] { (void)optimizer.evaluate(); });
      refused("state_dict", [&] { optimizer.state_dict(); });
      refused("full_state_dict", [&] { optimizer.full_state_dict(); });
      refused("load", [&] { optimizer.load_state_dict(before); });
      refused("save", [&] { save(optimizer, folder.path()); });
      ToyModel<float> other({{4, 3}});
      ParameterGroup added = other.group();
      added.parameters[0].name = "other";
      refused("add_group", [&] { optimizer.add_group(added); });
      EXPECT_EQ(optimizer.steps("tensor0"), 3);
      EXPECT_EQ(optimizer.failure(), "");

      guard.end();
      EXPECT_EQ(job.values(), training);
      EXPECT_EQ(optimizer.full_state_dict(), before);
      job.train(3, 4);
      EXPECT_EQ(optimizer.steps("tensor0"), 4);
    });
}

TEST(Evaluating, OnOneRankAloneLeavesNoOtherRankWaiting) {
  const TemporaryFolder folder;
  run_ranks(3, [&](Communicator& communicator) {
    Job<float> job(communicator, small, {}, {.agree_before_commit = true});
    Optimizer& optimizer = *job.optimizer;
    job.train(0, 2);
    const StateDict before = optimizer.full_state_dict();
    const auto training = job.values();
    std::optional<Evaluation> guard;
    if (communicator.rank() == 0) guard.emplace(optimizer.evaluate());

    const auto refused = [&](const std::string& step, const std::string& call,
                             const std::function<void()>& body) {
      EXPECT_EQ(error_of<std::logic_error>(body), step + "rank 0: " + call + in_place);
      EXPECT_EQ(job.values(), training) << call;
    };
    refused("step 3: ", "step", [&] { optimizer.step(); });
    refused("", "full_state_dict", [&] { optimizer.full_state_dict(); });
    refused("", "load", [&] { optimizer.load_state_dict(before); });
    refused("", "save", [&] { save(optimizer, folder.path()); });
    refused("", "save", [&] { AsyncCheckpointer(optimizer).start(folder.path()); });
    ToyModel<float> other({{4, 3}});
    ParameterGroup added = other.group();
    added.parameters[0].name = "other";
    refused("", "add_group", [&] { optimizer.add_group(added); });
    EXPECT_EQ(optimizer.failure(), "");

    guard.reset();
    job.train(2, 3);
    EXPECT_EQ(optimizer.steps("tensor0"), 3);
  });
}

TEST(Evaluating, AStepPreparedInsideIsRefusedAfterTheEnd) {
  for (const Trainee& trainee : {small, with_iterates()})
    run_ranks(2, [&](Communicator& communicator) {
      Job<float> job(communicator, trainee, {});
      job.train(0, 2);
      const auto training = job.values();
      Evaluation guard = job.optimizer->evaluate();
      job.optimizer->prepare_step();
      guard.end();
      EXPECT_EQ(error_of<std::logic_error>([&] { job.optimizer->enqueue_step(); }),
                "step 3: step" + in_place);
      EXPECT_EQ(job.values(), training);
    });
}

TEST(Evaluating, IsRefusedOnAllRanksWhereOneHasPreparedAStep) {
  run_ranks(2, [](Communicator& communicator) {
    Job<float> job(communicator, with_iterates(), {});
    job.train(0, 2);
    const auto training = job.values();
    if (communicator.rank() == 1) job.optimizer->prepare_step();
    EXPECT_EQ(error_of<std::logic_error>([&] { (void)job.optimizer->evaluate(); }),
              "rank 1: evaluate: a step is prepared; enqueue or replay it first");
    EXPECT_EQ(job.values(), training);
    if (communicator.rank() == 0) job.optimizer->prepare_step();
    EXPECT_TRUE(job.optimizer->enqueue_step().applied());
  });
}

TEST(Evaluating, IsRefusedWhileAStepIsPrepared) {
  Alone alone(with_iterates());
  Optimizer& optimizer = *alone.job.optimizer;
  optimizer.prepare_step();
  EXPECT_NE(error_of<std::logic_error>([&] { (void)optimizer.evaluate(); }).find("is prepared"),
            std::string::npos);
  EXPECT_TRUE(optimizer.enqueue_step().applied());
  const Evaluation guard = optimizer.evaluate();
}

TEST(Evaluating, IsAnErrorWhereAnotherRankTakesAStep) {
  run_ranks(2, [](Communicator& communicator) {
    Job<float> job(communicator, with_iterates(), {});
    job.train(0, 2);
    const auto training = job.values();
    const std::string message = error_of<CommunicationError>([&] {
      if (communicator.rank() == 0)
        (void)job.optimizer->evaluate();
      else
        job.optimizer->step();
    });
    expect_says(message, {"the ranks are not at the same call: evaluating on rank 0, step 3"});
    EXPECT_EQ(job.values(), training);
    EXPECT_THROW(job.optimizer->step(), CommunicationError);
  });
}

}  // namespace
}  // namespace shampoo::test
