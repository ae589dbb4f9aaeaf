// SPDX-License-Identifier: Apache-2.0
// Rates that one parameter of a group has for itself.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <utility>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

const std::vector<std::vector<std::int64_t>> own_shapes = {{9, 8}, {13}, {1, 7}, {}, {3, 4, 5}};

Recipe trained_recipe() {
  Recipe recipe = quick_recipe();
  recipe.averaging = Momentum{};
  return recipe;
}

const Rates group_rates{.learning_rate = 1e-2, .weight_decay = 0.1, .momentum = 0.5};

/// Sets a rate of tensor t alone: in its own group, or within the group of all.
void set(Optimizer& optimizer, std::size_t t, double Rates::*rate, double value) {
  if (optimizer.group_count() == 1)
    optimizer.group(0).set_rate(t, rate, value);
  else
    optimizer.group(static_cast<int>(t)).rates.*rate = value;
}

enum class Grouping { one_group, group_each, group_each_unmerged };

template <typename Scalar>
std::vector<std::vector<Scalar>> train(Place place, int rank_count, Grouping grouping) {
  std::vector<std::vector<Scalar>> values;
  run_ranks_at(place, rank_count, [&](Communicator& ranks, kernels::Backend& backend) {
    ToyModel<Scalar> model(own_shapes, 1, &backend);
    const Recipe recipe = trained_recipe();
    const auto groups = grouping == Grouping::one_group
                            ? std::vector{model.group(recipe, group_rates)}
                            : model.groups(recipe, group_rates);
    Optimizer optimizer(backend, ranks, groups,
                        {.merge_groups = grouping != Grouping::group_each_unmerged});
    for (int step = 0; step < 5; ++step) {
      set(optimizer, 0, &Rates::learning_rate, 1e-3 * (step + 1));
      set(optimizer, 1, &Rates::weight_decay, step % 2 == 0 ? 0 : 0.5);
      if (step < 3) set(optimizer, 4, &Rates::beta2, 0.9);
      if (step == 3 && grouping == Grouping::one_group)
        optimizer.group(0).clear_rate(4, &Rates::beta2);
      else if (step == 3)
        optimizer.group(4).rates.beta2 = group_rates.beta2;
      optimizer.step();
      model.new_gradients();
    }
    auto own = model.values();
    if (ranks.rank() + 1 == rank_count) values = std::move(own);
  });
  return values;
}

class OwnRates : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

TEST_P(OwnRates, GiveTheBitsOfAGroupOfTheirOwnOnAnyNumberOfRanks) {
  const auto expected = train<float>(GetParam(), 1, Grouping::group_each);
  EXPECT_NE(expected, ToyModel<float>(own_shapes).values());
  for (const int ranks : {1, 3}) {
    EXPECT_EQ(train<float>(GetParam(), ranks, Grouping::one_group), expected) << ranks;
    EXPECT_EQ(train<float>(GetParam(), ranks, Grouping::group_each_unmerged), expected) << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(Everywhere, OwnRates, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

class OwnRatesHere : public ::testing::Test {
 protected:
  ToyModel<float> model_{own_shapes};
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> alone_ = single_rank_communicator();
};

TEST_F(OwnRatesHere, StayWhileThoseOfTheGroupChange) {
  Optimizer optimizer(*backend_, *alone_, {model_.group(trained_recipe(), group_rates)});
  Group& group = optimizer.group(0);
  group.set_rate("tensor1", "learning_rate", 0.5);
  group.set_rate("tensor1", &Rates::beta3, 0.25);
  group.rates.learning_rate = 2;

  EXPECT_EQ(group.rates_of(1).learning_rate, 0.5);
  EXPECT_EQ(group.rates_of(1).beta3, 0.25);
  EXPECT_EQ(group.rates_of(0).learning_rate, 2);
  EXPECT_EQ(group.own_rates().size(), 2u);
  group.clear_rate("tensor1", &Rates::learning_rate);
  EXPECT_EQ(group.rates_of(1).learning_rate, 2);
}

/// A decay mask, which may change from step to step.
TEST_F(OwnRatesHere, LeaveDecayOutForSomeParameters) {
  for (auto& tensor : model_.tensors) std::ranges::fill(tensor.gradient, 0.0F);
  Recipe recipe = recipes::sgd();
  Optimizer optimizer(*backend_, *alone_,
                      {model_.group(recipe, {.learning_rate = 0.5, .weight_decay = 0.5})});
  const auto before = model_.values();
  optimizer.group(0).set_rate("tensor1", &Rates::weight_decay, 0);

  optimizer.step();

  EXPECT_EQ(model_.values()[1], before[1]);
  EXPECT_EQ(model_.values()[0][0], 0.75F * before[0][0]);
  optimizer.group(0).clear_rate("tensor1", &Rates::weight_decay);
  optimizer.step();
  EXPECT_EQ(model_.values()[1][0], 0.75F * before[1][0]);
}

TEST_F(OwnRatesHere, EnterTheEvaluationValues) {
  const auto evaluated = [&](bool one_group) {
    ToyModel<float> model(own_shapes);
    const Recipe recipe = recipes::schedule_free_adamw();
    Optimizer optimizer(*backend_, *alone_,
                        one_group ? std::vector{model.group(recipe)} : model.groups(recipe, {}));
    set(optimizer, 1, &Rates::train_interpolation, 0.5);
    for (int step = 0; step < 3; ++step) optimizer.step();
    const Evaluation evaluation = optimizer.evaluate();
    return model.values();
  };
  EXPECT_EQ(evaluated(true), evaluated(false));
}

TEST_F(OwnRatesHere, AreRefusedByParameterAndRateWithNothingChanged) {
  Optimizer optimizer(*backend_, *alone_, {model_.group(trained_recipe(), group_rates)});
  Group& group = optimizer.group(0);
  const auto before = model_.values();
  group.set_rate("tensor1", &Rates::beta2, 1.5);
  EXPECT_EQ(error_of<std::invalid_argument>([&] { optimizer.step(); }),
            "group 0, parameter 'tensor1': beta2 must be in [0, 1], got 1.5");
  EXPECT_EQ(model_.values(), before);
  group.clear_rate("tensor1", &Rates::beta2);
  group.set_rate("tensor2", &Rates::train_interpolation, 0.5);
  EXPECT_NE(error_of<std::invalid_argument>([&] {
              optimizer.step();
            }).find("group 0, parameter 'tensor2': train_interpolation must be 0.8"),
            std::string::npos);
  group.clear_rate("tensor2", &Rates::train_interpolation);
  EXPECT_TRUE(optimizer.step().applied());

  EXPECT_EQ(error_of<std::out_of_range>([&] { group.set_rate(9, &Rates::beta1, 0); }),
            "group 0: there is no parameter 9 (it has 5, counted from 0)");
  EXPECT_EQ(error_of<std::out_of_range>([&] { group.set_rate("w", &Rates::beta1, 0); }),
            "group 0: there is no parameter 'w'");
  const std::string unknown =
      error_of<std::invalid_argument>([&] { group.set_rate(0, "beta4", 0); });
  EXPECT_TRUE(unknown.starts_with("rate: must be one of learning_rate, beta1, ")) << unknown;
  EXPECT_TRUE(unknown.ends_with("got 'beta4'")) << unknown;
}

TEST_F(OwnRatesHere, AreReplacedAllOrNone) {
  Optimizer optimizer(*backend_, *alone_, {model_.group(trained_recipe(), group_rates)});
  Group& group = optimizer.group(0);
  group.set_rate(1, &Rates::beta2, 0.5);
  for (const OwnRate& bad : {OwnRate{0, "beta4", 0.5}, OwnRate{0, "beta1", 0.25}})
    EXPECT_THROW(group.replace_rates({{.learning_rate = 7}, {{0, "beta1", 0.5}, bad}}),
                 std::invalid_argument);
  EXPECT_THROW(group.replace_rates({{.learning_rate = 7}, {{9, "beta1", 0.5}}}), std::out_of_range);
  EXPECT_EQ(group.rates.learning_rate, group_rates.learning_rate);
  ASSERT_EQ(group.own_rates().size(), 1u);
  EXPECT_EQ(group.rates_of(1).beta2, 0.5);
  group.replace_rates({{.learning_rate = 7}, {{0, "beta1", 0.5}}});
  EXPECT_EQ(group.rates.learning_rate, 7);
  EXPECT_EQ(group.own_rates().size(), 1u);
}

TEST(OwnRatesThatDifferBetweenRanks, AreNamed) {
  std::vector<std::string> messages(3);
  run_ranks(3, [&](Communicator& ranks) {
    ToyModel<float> model(own_shapes);
    const auto backend = cpu_backend({.threads = 1});
    Optimizer optimizer(*backend, ranks, {model.group(trained_recipe(), group_rates)});
    if (ranks.rank() == 1) optimizer.group(0).set_rate("tensor1", &Rates::beta2, 0.5);
    messages[static_cast<std::size_t>(ranks.rank())] =
        error_of<CommunicationError>([&] { optimizer.step(); });
  });
  for (const std::string& message : messages)
    for (const char* word : {"rates", "group 0, parameter 'tensor1': beta2 0.5", "rank 1"})
      EXPECT_NE(message.find(word), std::string::npos) << message;
}

TEST_F(OwnRatesHere, AreSavedAndLoaded) {
  const TemporaryFolder folder;
  Optimizer optimizer(*backend_, *alone_, {model_.group(trained_recipe(), group_rates)});
  optimizer.group(0).set_rate("tensor0", &Rates::learning_rate, 0.5);
  optimizer.group(0).set_rate("tensor3", &Rates::weight_decay, 0);
  optimizer.step();
  save(optimizer, folder.path());
  const StateDict dict = optimizer.full_state_dict();
  for (const bool from_file : {true, false}) {
    ToyModel<float> model(own_shapes);
    Optimizer other(*backend_, *alone_, {model.group(trained_recipe(), {.beta2 = 0.5})});
    other.group(0).set_rate("tensor1", &Rates::learning_rate, 7);
    from_file ? (void)load(other, folder.path()) : (void)other.load_state_dict(dict);
    EXPECT_TRUE(std::ranges::equal(other.group(0).own_rates(), optimizer.group(0).own_rates()));
    EXPECT_EQ(other.group(0).rates, optimizer.group(0).rates);
  }
}

/// Trains with rates of parameters' own, a 16-bit value, a frozen parameter and absent gradients.
struct OwnRatesJob {
  explicit OwnRatesJob(Communicator& ranks) {
    ParameterGroup group = model.group(trained_recipe(), group_rates);
    group.parameters[0].value = Tensor(narrow.data(), Type::bfloat16);
    group.parameters[2].frozen = true;
    optimizer.emplace(*backend, ranks, std::vector{group});
  }
  void train(int first, int last) {
    for (int step = 0; step < last; ++step) {
      model.new_gradients();
      if (step < first) continue;
      if (step == 1) optimizer->group(0).set_rate(0, &Rates::learning_rate, 0.125);
      if (step == 1) optimizer->group(0).set_rate(4, &Rates::beta2, 0.5);
      optimizer->group(0).set_gradient(4,
                                       step % 2 == 1 ? nullptr : model.tensors[4].gradient.data());
      optimizer->step();
    }
  }

  ToyModel<float> model{own_shapes};
  std::vector<std::uint16_t> narrow = std::vector<std::uint16_t>(72, 0x3f80);  // 1
  std::unique_ptr<Backend> backend = cpu_backend({.threads = 1});
  std::optional<Optimizer> optimizer;
};

TEST_F(OwnRatesHere, GoOnFromACheckpointOnAnotherNumberOfRanksWithTheSameBits) {
  OwnRatesJob undisturbed(*alone_);
  undisturbed.train(0, 6);
  for (const auto& [saving, loading] : {std::pair(1, 3), std::pair(3, 1), std::pair(3, 8)}) {
    const TemporaryFolder folder;
    std::vector<std::vector<float>> values;
    std::vector<std::uint16_t> narrow;
    run_ranks(saving, [&](Communicator& ranks) {
      OwnRatesJob job(ranks);
      job.train(0, 3);
      save(*job.optimizer, folder.path());
      if (ranks.rank() > 0) return;
      values = job.model.values();
      narrow = job.narrow;
    });
    run_ranks(loading, [&](Communicator& ranks) {
      OwnRatesJob job(ranks);
      for (std::size_t t = 0; t < values.size(); ++t)
        std::ranges::copy(values[t], job.model.tensors[t].value.begin());
      std::ranges::copy(narrow, job.narrow.begin());
      resume(*job.optimizer, folder.path());
      job.train(3, 6);
      EXPECT_EQ(job.model.values(), undisturbed.model.values());
      EXPECT_EQ(job.narrow, undisturbed.narrow);
    });
  }
}

TEST_F(OwnRatesHere, AreLoadedIntoOtherGroupsAndNotConfusedWithRatesOfGroups) {
  Optimizer optimizer(*backend_, *alone_, {model_.group(trained_recipe(), group_rates)});
  optimizer.group(0).set_rate("tensor0", &Rates::learning_rate, 0.5);
  StateDict dict = optimizer.full_state_dict();
  {
    ToyModel<float> model(own_shapes);
    Optimizer other(*backend_, *alone_, model.groups(trained_recipe(), group_rates));
    other.load_state_dict(dict);
    EXPECT_EQ(other.group(0).rates_of(0).learning_rate, 0.5);
    EXPECT_EQ(other.group(1).rates_of(0).learning_rate, 1e-2);
  }
  dict.parameters[1].rates.weight_decay = 0.25;  // as of another group
  const std::string refused =
      error_of<std::invalid_argument>([&] { optimizer.load_state_dict(dict); });
  EXPECT_NE(refused.find("(weight_decay)"), std::string::npos) << refused;
  dict.parameters[1].own_rates = {"weight_decay"};
  optimizer.load_state_dict(dict);
  EXPECT_EQ(optimizer.group(0).rates_of(1).weight_decay, 0.25);
  dict.parameters[1].own_rates = {"beta4"};
  EXPECT_THROW(optimizer.load_state_dict(dict), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
