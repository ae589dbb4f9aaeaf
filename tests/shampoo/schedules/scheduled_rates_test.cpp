// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "tests/shampoo/protocol/captured_step.h"
#include "tests/shampoo/state/state_job.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

const Schedule cosine = schedules::Cosine{.steps = 12, .minimum = 1e-4};
const Schedule falling = schedules::Linear{.start_factor = 1, .end_factor = 0.25, .steps = 9};

/// Gives all groups two schedules, with other base rates for each.
void schedule_all(Optimizer& optimizer) {
  for (int g = 0; g < optimizer.group_count(); ++g) {
    Group& group = optimizer.group(g);
    group.schedules["learning_rate"] = cosine;
    group.schedules["weight_decay"] = falling;
    group.base_rates.learning_rate = 0.01 * (g + 1);
  }
}

TEST(ScheduledRates, AreSetBeforeEveryStepThatIsTaken) {
  Alone alone;
  Job<float>& job = alone.job;
  Group& group = job.optimizer->group(0);
  const Rates made = group.rates;
  EXPECT_EQ(group.base_rates, made);
  group.schedules = {{"learning_rate", cosine}, {"weight_decay", falling}};
  const std::vector<double> rates = cosine.values(made.learning_rate, 6),
                            decays = falling.values(made.weight_decay, 6);
  for (int step = 0; step < 6; ++step) {
    if (step == 3) {
      job.model.tensors[1].gradient[2] = std::numeric_limits<float>::quiet_NaN();
      EXPECT_FALSE(job.optimizer->step().applied());
      EXPECT_EQ(group.rates.learning_rate, rates[3]) << "of the step that is skipped";
    }
    job.train(step, step + 1);
    EXPECT_EQ(group.rates.learning_rate, rates[static_cast<std::size_t>(step)]) << step;
    EXPECT_EQ(group.rates.weight_decay, decays[static_cast<std::size_t>(step)]) << step;
    EXPECT_EQ(group.rates.beta1, made.beta1);
  }
}

TEST(ScheduledRates, OfAFunctionThatThrewAreThoseOfItsStepOnceTheStepIsRepeated) {
  Alone alone;
  Job<float>& job = alone.job;
  Group& group = job.optimizer->group(0);
  bool throws = false;
  const std::function<double(std::int64_t)> half = [&](std::int64_t step) {
    if (throws) throw std::runtime_error("once");
    return std::ldexp(1, -static_cast<int>(step));
  };
  group.base_rates.learning_rate = group.base_rates.weight_decay = 1;
  group.schedules = {{"learning_rate", schedules::Function{half}},
                     {"weight_decay", schedules::Product{half}}};
  const std::vector<double> decays = {1, 0.5, 0.125, 0x1p-6};
  for (int step = 0; step < 4; ++step) {
    throws = step == 2;
    if (throws) {
      EXPECT_EQ(error_of<std::runtime_error>([&] { job.optimizer->step(); }), "once");
      throws = false;
    }
    job.train(step, step + 1);
    EXPECT_EQ(group.rates.learning_rate, std::ldexp(1, -step)) << step;
    EXPECT_EQ(group.rates.weight_decay, decays[static_cast<std::size_t>(step)]) << step;
  }
}

TEST(ScheduledRates, OfAFunctionAreAskedForAgainWhereTheStepWasRefused) {
  Alone alone;
  Job<float>& job = alone.job;
  Group& group = job.optimizer->group(0);
  double factor = 1;
  bool throws = false;
  const Schedule product = schedules::Product{[&](std::int64_t) {
    if (throws) throw std::runtime_error("once");
    return factor;
  }};
  group.base_rates.learning_rate = 0.5;
  group.schedules["learning_rate"] = product;
  job.train(0, 1);
  for (const double bad : {-1.0, std::numeric_limits<double>::quiet_NaN()}) {
    factor = bad;
    EXPECT_THROW(job.optimizer->step(), std::invalid_argument);
  }
  factor = 0.5;
  job.train(1, 2);
  EXPECT_EQ(group.rates.learning_rate, 0.25) << "0.5 once, of the step that was taken";

  const StateDict state = job.optimizer->state_dict();
  job.train(2, 3);
  EXPECT_EQ(group.rates.learning_rate, 0.125);
  factor = -1;
  EXPECT_THROW(job.optimizer->step(), std::invalid_argument);
  throws = true;
  EXPECT_THROW(job.optimizer->step(), std::runtime_error);
  throws = false;
  factor = 0.5;
  job.optimizer->load_state_dict(state);
  job.train(2, 4);
  EXPECT_EQ(group.rates.learning_rate, 0.0625);
}

TEST(ScheduledRates, AreThoseThatACallerWouldSet) {
  Alone scheduled, by_hand;
  schedule_all(*scheduled.job.optimizer);
  for (int step = 0; step < 8; ++step) {
    Rates& rates = by_hand.job.optimizer->group(0).rates;
    rates.learning_rate = cosine.value(0.01, step);
    rates.weight_decay = falling.value(0.01, step);
    by_hand.job.train(step, step + 1);
    scheduled.job.train(step, step + 1);
  }
  EXPECT_EQ(scheduled.job.values(), by_hand.job.values());
}

TEST(ScheduledRates, OfAGroupAddedLaterStartFromItsOwnBaseAtTheStepOfTheOthers) {
  Alone alone;
  Optimizer& optimizer = *alone.job.optimizer;
  optimizer.group(0).schedules["learning_rate"] = cosine;
  alone.job.train(0, 4);
  ToyModel<float> other({{5, 3}}, 2);
  ParameterGroup added = other.group(quick_recipe(), {.learning_rate = 0.3});
  added.parameters[0].name = "added";
  added.schedules["learning_rate"] = cosine;
  optimizer.add_group(added);
  optimizer.step();
  EXPECT_EQ(optimizer.group(0).rates.learning_rate, cosine.value(1e-2, 4));
  EXPECT_EQ(optimizer.group(1).rates.learning_rate, cosine.value(0.3, 4));
}

TEST(ScheduledRates, GoOnFromASavedStateOnAnotherNumberOfRanks) {
  std::optional<End<float>> saved, undisturbed;
  const auto run = [&](int ranks, const std::function<void(Job<float>&)>& train) {
    End<float> end;
    run_on_cpu(ranks, [&](Communicator& communicator, kernels::Backend& backend) {
      Job<float> job(communicator, small, {.ranks = ranks, .groups = 2}, {}, &backend);
      train(job);
      StateDict state = job.optimizer->full_state_dict({}, Gather::on_rank_0);
      if (communicator.rank() == 0) end = {std::move(state), job.values()};
    });
    return end;
  };
  saved = run(3, [](Job<float>& job) {
    schedule_all(*job.optimizer);
    job.train(0, 7);
  });
  undisturbed = run(1, [](Job<float>& job) {
    schedule_all(*job.optimizer);
    job.train(0, 12);
  });
  const auto resume = [&](Job<float>& job, const LoadOptions& options) {
    for (int g = 0; g < job.optimizer->group_count(); ++g)
      job.optimizer->group(g).schedules = {{"learning_rate", cosine}, {"weight_decay", falling}};
    job.set_values(saved->values);
    job.optimizer->load_state_dict(saved->state, options);
    job.train(7, 12);
  };
  EXPECT_EQ(run(2, [&](Job<float>& job) { resume(job, {}); }), *undisturbed);
  run(1, [&](Job<float>& job) {
    resume(job, {.keep_rates = true});
    EXPECT_EQ(job.optimizer->group(1).base_rates.learning_rate, 1e-2);
    EXPECT_EQ(job.optimizer->group(1).rates.learning_rate, cosine.value(1e-2, 11));
  });
}

TEST(ScheduledRates, OfAStateWithoutBaseRatesStartFromThoseOfTheGroup) {
  Alone saving;
  saving.job.optimizer->group(0).rates.learning_rate = 0.07;
  saving.job.train(0, 3);
  const StateDict state = saving.job.optimizer->state_dict();
  for (const ParameterState& parameter : state.parameters) EXPECT_FALSE(parameter.base_rates);
  Alone loading;
  Group& group = loading.job.optimizer->group(0);
  group.schedules["learning_rate"] = cosine;
  loading.job.optimizer->load_state_dict(state);
  EXPECT_EQ(group.rates.learning_rate, 0.07);
  loading.job.train(3, 4);
  EXPECT_EQ(group.rates.learning_rate, cosine.value(1e-2, 3));
}

TEST(ScheduledRates, FollowAStepThatIsSetInAStateAsOtherRatesAre) {
  Alone alone;
  Optimizer& optimizer = *alone.job.optimizer;
  StateDict state = optimizer.full_state_dict();
  state.progress.attempts = state.progress.taken = 7;
  const std::map<std::string, double> table{{"beta1", 0.5}, {"weight_decay", 0.25}};
  for (ParameterState& parameter : state.parameters) {
    parameter.steps = 7;
    for (const auto& [rate, value] : table) RateField(rate).set(parameter.rates, value);
  }
  optimizer.group(0).schedules["learning_rate"] = cosine;

  optimizer.load_state_dict(state);
  alone.job.train(0, 1);

  const Rates& rates = optimizer.group(0).rates;
  EXPECT_EQ(rates.learning_rate, cosine.value(1e-2, 7));
  EXPECT_EQ(rates.beta1, 0.5);
  EXPECT_EQ(rates.weight_decay, 0.25);
  for (const auto& tensor : alone.job.model.tensors) EXPECT_EQ(optimizer.steps(tensor.name), 8);
}

TEST(ScheduledRates, ComeBackFromACheckpoint) {
  const TemporaryFolder folder;
  std::optional<StateDict> saved;
  {
    Alone saving;
    schedule_all(*saving.job.optimizer);
    saving.job.optimizer->group(0).base_rates.learning_rate = 0.021;
    saving.job.train(0, 5);
    save(*saving.job.optimizer, folder.path());
    saved = saving.job.optimizer->state_dict();
  }
  Alone loading;
  schedule_all(*loading.job.optimizer);
  load(*loading.job.optimizer, folder.path());
  EXPECT_EQ(loading.job.optimizer->group(0).base_rates.learning_rate, 0.021);
  EXPECT_EQ(loading.job.optimizer->state_dict(), *saved);
  loading.job.train(5, 6);
  EXPECT_EQ(loading.job.optimizer->group(0).rates.learning_rate, cosine.value(0.021, 5));
}

TEST(ScheduledRates, MustBeOneGroupsOwnWhereParametersComeTogether) {
  StateDict state;
  {
    const auto ranks = single_rank_communicator();
    Job<float> job(*ranks, small, {.groups = 2});
    schedule_all(*job.optimizer);
    state = job.optimizer->state_dict();
  }
  for (ParameterState& parameter : state.parameters) parameter.rates = state.parameters[0].rates;
  Alone loading;
  const StateDict before = loading.job.optimizer->state_dict();
  expect_says(
      error_of<std::invalid_argument>([&] { loading.job.optimizer->load_state_dict(state); }),
      {"parameter 'tensor1'", "group 0 with 'tensor0'", "other base rates"});
  EXPECT_EQ(loading.job.optimizer->state_dict(), before);
}

TEST(ScheduledRates, AreLeftAloneByTheCallerOrItIsAnErrorOfTheStep) {
  run_ranks(3, [](Communicator& communicator) {
    Job<float> job(communicator, small, {.ranks = 3});
    schedule_all(*job.optimizer);
    job.train(0, 2);
    const auto values = job.values();
    Group& group = job.optimizer->group(0);
    const Rates rates = group.rates;
    group.rates.learning_rate = 0.5;
    expect_says(error_of<std::invalid_argument>([&] { job.optimizer->step(); }),
                {"group 0: schedules: learning_rate", "rates.learning_rate", "base_rates"});
    EXPECT_EQ(job.values(), values);
    group.rates = rates;
    group.base_rates.learning_rate = 0.02;
    job.train(2, 3);
    EXPECT_EQ(group.rates.learning_rate, cosine.value(0.02, 2));

    group.schedules.erase("learning_rate");
    group.rates.learning_rate = 0.5;
    job.train(3, 4);
    EXPECT_EQ(group.rates.learning_rate, 0.5);
    EXPECT_EQ(group.rates.weight_decay, falling.value(0.01, 3));
    group.schedules["learning_rate"] = falling;
    job.train(4, 5);
    EXPECT_EQ(group.rates.learning_rate, falling.value(0.02, 4));
  });
}

TEST(ScheduledRates, ReplaceOneOfTheCallersOnceTheirBaseOrScheduleIsAnother) {
  const Schedule longer = schedules::Cosine{.steps = 24};
  for (const bool by_base : {true, false}) {
    Alone alone;
    Job<float>& job = alone.job;
    Group& group = job.optimizer->group(0);
    group.schedules["learning_rate"] = cosine;
    job.train(0, 2);
    group.rates.learning_rate = 0.5;
    for (int attempt = 0; attempt < 2; ++attempt)
      expect_says(error_of<std::invalid_argument>([&] { job.optimizer->step(); }),
                  {"give base_rates.learning_rate another value or the rate another schedule"});
    if (by_base)
      group.base_rates.learning_rate = 0.5;
    else
      group.schedules["learning_rate"] = longer;
    job.train(2, 3);
    EXPECT_EQ(group.rates.learning_rate, by_base ? cosine.value(0.5, 2) : longer.value(1e-2, 2));
    group.rates.learning_rate = 0.5;
    EXPECT_THROW(job.optimizer->step(), std::invalid_argument);
  }
}

TEST(ScheduledRates, NeedARateWithAValue) {
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> model({{4, 3}});
  const auto refusal = [&](const std::string& rate) {
    ParameterGroup group = model.group(quick_recipe());
    group.schedules[rate] = cosine;
    return error_of<std::invalid_argument>([&] { Optimizer(*backend, *ranks, {group}); });
  };
  expect_says(refusal("lr"),
              {"group 0: schedules: rate: must be one of learning_rate, ", "got 'lr'"});
  EXPECT_EQ(refusal("beta3"),
            "group 0: schedules: beta3: is not set in base_rates: there is no value to start from");
  EXPECT_EQ(refusal("beta2"), "");
  EXPECT_EQ(refusal("momentum"),
            "group 0: schedules: momentum: is not read by the recipe of the group");
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())});
  optimizer.group(0).schedules["momentum"] = cosine;
  EXPECT_EQ(error_of<std::invalid_argument>([&] { optimizer.step(); }),
            "group 0: schedules: momentum: is not read by the recipe of the group");
}

TEST(ScheduledRates, OutOfRangeAreRefusedWithNothingChanged) {
  Alone alone;
  Job<float>& job = alone.job;
  job.train(0, 1);
  const auto values = job.values();
  job.optimizer->group(0).schedules["beta2"] = schedules::Function{[](std::int64_t) { return 2; }};
  expect_says(error_of<std::invalid_argument>([&] { job.optimizer->step(); }),
              {"group 0", "beta2 must be in"});
  EXPECT_EQ(job.values(), values);
}

TEST(ScheduledRates, ReachReplaysOfACapturedStep) {
  Recipe seldom = captured_recipe();
  seldom.refresh.every = 25;
  DeviceJob plain(seldom), replayed(seldom);
  std::optional<Graph> graph;
  int replays = 0;
  for (DeviceJob* const job : {&plain, &replayed}) schedule_all(*job->optimizer);
  for (int step = 0; step < 12; ++step) {
    for (DeviceJob* const job : {&plain, &replayed}) job->model.new_gradients();
    plain.optimizer->step();
    replayed.optimizer->prepare_step();
    if (replayed.optimizer->refresh_is_due()) {
      replayed.optimizer->enqueue_step();
      continue;
    }
    if (!graph) graph = capture(replayed);
    replayed.device.replay(*graph);
    ++replays;
  }
  EXPECT_GT(replays, 8);
  EXPECT_EQ(replayed.values(), plain.values());
  EXPECT_EQ(replayed.optimizer->group(1).rates, plain.optimizer->group(1).rates);
}

}  // namespace
}  // namespace shampoo::test
