// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

/// Properties of every kind of averaging, with bfloat16 values, absent gradients, scalars, sides
/// of 1 and ranks that own nothing.
/// The kinds are those of the parameter, a recipe.
class Averagings : public ::testing::TestWithParam<Recipe> {
 protected:
  Trainee trainee() const {
    Recipe averaged = quick_recipe(), plain = quick_recipe();
    averaged.averaging = GetParam().averaging;
    averaged.value_averaging = GetParam().value_averaging;
    averaged.communication = GetParam().communication;
    plain.preconditioner = Sgd{};
    return {.recipes = {averaged, averaged, plain}, .narrow = true, .absent_every = 4};
  }

  static Arrangement on(int ranks, Place place = Place::cpu) {
    return {.ranks = ranks,
            .groups = 2,
            .rates = {.learning_rate = 1e-2,
                      .epsilon = 1e-6,
                      .weight_decay = 0.01,
                      .momentum = 0.5,
                      .train_interpolation = 0.75,
                      .evaluation_interpolation = 0.6},
            .run = [place](int count, const auto& body) { run_ranks_at(place, count, body); }};
  }

  static constexpr int steps = steps_before + steps_after;
};

TEST_P(Averagings, GiveTheSameBitsMergedUnmergedAndOnAnyNumberOfRanks) {
  const End<float> alone = train_first<float>(trainee(), on(1), steps);
  EXPECT_NE(alone.values, train_first<float>(trainee(), on(1), 0).values) << "trained";
  Arrangement unmerged = on(1);
  unmerged.merges = false;
  EXPECT_EQ(train_first<float>(trainee(), unmerged, steps), alone);
  for (const int ranks : {2, 3, 16})
    EXPECT_EQ(train_first<float>(trainee(), on(ranks), steps), alone) << ranks << " ranks";
}

TEST_P(Averagings, GoOnFromASavedStateOnAnotherNumberOfRanks) {
  const End<float> undisturbed = train_first<float>(trainee(), on(1), steps);
  EXPECT_EQ(train_on(train_first<float>(trainee(), on(3)), trainee(), on(2)), undisturbed);
}

TEST_P(Averagings, ASkippedStepChangesNothing) {
  Alone trained(trainee(), on(1));
  Job<float>& job = trained.job;
  job.train(0, 3);
  const StateDict before = job.optimizer->state_dict();
  const auto values = job.values();
  for (int g = 0; g < job.optimizer->group_count(); ++g)
    job.optimizer->group(g).rates.learning_rate = 0.5;
  job.model.tensors[4].gradient[2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(job.optimizer->step().applied());

  StateDict after = job.optimizer->state_dict();
  EXPECT_EQ(after.progress.attempts, before.progress.attempts + 1);
  after.progress = before.progress;
  for (std::size_t p = 0; p < after.parameters.size(); ++p)
    after.parameters[p].rates = before.parameters[p].rates;
  EXPECT_EQ(after, before);
  EXPECT_EQ(job.values(), values);
}

/// Trains with a look at the evaluation values between steps 5 and 6.
std::pair<End<float>, Job<float>::Values> train_and_evaluate(const Trainee& trainee,
                                                             const Arrangement& arrangement,
                                                             int steps) {
  std::pair<End<float>, Job<float>::Values> result;
  arrangement.run(arrangement.ranks, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, trainee, arrangement, {}, &backend);
    job.train(0, 5);
    const auto training = job.values();
    Evaluation guard = job.optimizer->evaluate();
    const auto evaluated = job.values();
    guard.end();
    EXPECT_EQ(job.values(), training);
    job.train(5, steps);
    StateDict state = job.optimizer->full_state_dict({}, Gather::on_rank_0);
    if (communicator.rank() == 0) result = {{std::move(state), job.values()}, evaluated};
  });
  return result;
}

TEST_P(Averagings, EvaluationIsTheSameOnAnyNumberOfRanksAndLeavesNoTrace) {
  const Trainee trained = trainee();
  const End<float> undisturbed = train_first<float>(trained, on(1), 8);
  const auto [end, evaluated] = train_and_evaluate(trained, on(1), 8);
  EXPECT_EQ(end, undisturbed);
  const bool averages = std::holds_alternative<PrimalAveraging>(GetParam().averaging) ||
                        std::holds_alternative<ScheduleFree>(GetParam().averaging) ||
                        !std::holds_alternative<NoValueAverage>(GetParam().value_averaging);
  EXPECT_EQ(evaluated != train_first<float>(trained, on(1), 5).values, averages);
  for (const int ranks : {2, 3, 16}) {
    const auto [other_end, other] = train_and_evaluate(trained, on(ranks), 8);
    EXPECT_EQ(other_end, undisturbed) << ranks << " ranks";
    EXPECT_EQ(other, evaluated) << ranks << " ranks";
  }
}

TEST_P(Averagings, EvaluationOnDevicesIsTheSameOnAnyNumberOfRanksAndLeavesNoTrace) {
  const Trainee trained{.shapes = small.shapes, .recipes = trainee().recipes, .narrow = true};
  const auto [end, evaluated] = train_and_evaluate(trained, on(1, Place::emulated), 7);
  EXPECT_EQ(end, train_first<float>(trained, on(1, Place::emulated), 7));
  const auto [other_end, other] = train_and_evaluate(trained, on(3, Place::emulated), 7);
  EXPECT_EQ(other_end, end);
  EXPECT_EQ(other, evaluated);
}

TEST_P(Averagings, EvaluationValuesAreTheSameAfterALoad) {
  const End<float> saved = train_first<float>(trainee(), on(3), 5);
  const auto expected = train_and_evaluate(trainee(), on(1), 5).second;
  const Arrangement two = on(2);
  two.run(2, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, trainee(), two, {}, &backend);
    job.set_values(saved.values);
    job.optimizer->load_state_dict(saved.state);
    const Evaluation guard = job.optimizer->evaluate();
    EXPECT_EQ(job.values(), expected);
  });
}

TEST_P(Averagings, GroupsAddedLaterLeaveIteratesWhereTheyAre) {
  const Arrangement three = on(3);
  three.run(3, [&](Communicator& communicator, kernels::Backend& backend) {
    Job<float> job(communicator, trainee(), three, {}, &backend);
    job.train(0, 4);
    const auto evaluated = [&] {
      const Evaluation guard = job.optimizer->evaluate();
      return job.values();
    };
    const auto before = evaluated();
    ToyModel<float> other({{9, 8}, {13}}, 2);
    ParameterGroup added = other.group(trainee().recipes[0], three.rates);
    for (Parameter& parameter : added.parameters) parameter.name += " of another";
    job.optimizer->add_group(added);
    EXPECT_EQ(evaluated(), before);
    const auto start = other.values();
    const Evaluation guard = job.optimizer->evaluate();
    EXPECT_EQ(other.values(), start);
  });
}

std::string name_of_averaging(const testing::TestParamInfo<Recipe>& info) {
  const auto name = [](const auto& kind) { return std::string(kind.name); };
  return std::visit(name, info.param.averaging) + "_" +
         std::visit(name, info.param.value_averaging) + "_" + std::to_string(info.index);
}

Recipe with(const Averaging& averaging) { return {.averaging = averaging}; }
Recipe with(const ValueAveraging& averaging, const Averaging& beside = NoAveraging{}) {
  return {.averaging = beside, .value_averaging = averaging};
}
/// Under which values are sent.
Recipe with(const Lookahead& lookahead, const Averaging& beside) {
  return {.averaging = beside, .communication = {.values = true}, .value_averaging = lookahead};
}

INSTANTIATE_TEST_SUITE_P(
    Of, Averagings,
    testing::Values(with(NoAveraging{}), with(Momentum{}), with(Momentum{.nesterov = true}),
                    with(PrimalAveraging{}), with(ScheduleFree{}), with(ScheduleFree{.power = 0.5}),
                    with(ExponentialAverage{.decay = 0.9}),
                    with(ExponentialAverage{.every = 2, .start = 1, .debias = true}, Momentum{}),
                    with(StochasticWeightAverage{.first = 2, .every = 3}),
                    with(Lookahead{.every = 3}, Momentum{})),
    name_of_averaging);

}  // namespace
}  // namespace shampoo::test
