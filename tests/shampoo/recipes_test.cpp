// SPDX-License-Identifier: Apache-2.0
#include "shampoo/recipes.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/shampoo/state/state_job.h"
#include "tests/support/named_recipes.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

namespace torch = recipes::torch;

struct Named {
  std::string name;
  Recipe recipe;
  Rates rates;
};
void PrintTo(const Named& named, std::ostream* out) { *out << named.name; }

Recipe grafted(const Diagonal& grafting) {
  Recipe recipe = quick_recipe();
  recipe.grafting = grafting;
  return recipe;
}

/// Named recipes, with blocks of 12 and a refresh every 3 steps, torch's with the options that
/// change state or update, and those options in a grafting.
std::vector<Named> named_recipes() {
  const torch::SgdOptions heavy{.momentum = 0.9, .dampening = 0.5, .weight_decay = 0.1};
  const torch::SgdOptions nesterov{.momentum = 0.9, .nesterov = true, .maximize = true};
  const torch::AdagradOptions adagrad{
      .lr_decay = 0.5, .weight_decay = 0.1, .initial_accumulator_value = 0.1, .maximize = true};
  const torch::RmspropOptions rmsprop{.momentum = 0.5, .centered = true, .maximize = true};
  const torch::AdamOptions adam{.weight_decay = 0.1, .amsgrad = true, .maximize = true};
  std::vector<Named> all = {
      {"TorchSgdPlain", torch::sgd(), torch::sgd_rates()},
      {"TorchSgd", torch::sgd(heavy), torch::sgd_rates(heavy)},
      {"TorchSgdNesterov", torch::sgd(nesterov), torch::sgd_rates(nesterov)},
      {"TorchAdagrad", torch::adagrad(adagrad), torch::adagrad_rates(adagrad)},
      {"TorchRmsprop", torch::rmsprop(rmsprop), torch::rmsprop_rates(rmsprop)},
      {"TorchAdam", torch::adam(adam), torch::adam_rates(adam)},
      {"TorchAdamW", torch::adamw(), torch::adamw_rates()},
      {"GraftedAmsgrad", grafted(Adam{.amsgrad = true}), {.grafting_beta2 = 0.5}},
      {"GraftedCentered", grafted(RmsProp{.centered = true}), {.grafting_beta2 = 0.5}},
      {"GraftedAdaGrad", grafted(AdaGrad{.initial_accumulator = 0.1}), {}}};
  for (const std::string& name : recipe_names()) {
    const NamedRecipe named = named_recipe(name, 12, 3);
    all.push_back({name, named.recipe, named.rates});
  }
  return all;
}

/// What holds for every named recipe, with bfloat16 values, absent gradients, scalars, sides of 1
/// and ranks that own nothing.
class NamedRecipes : public ::testing::TestWithParam<Named> {
 protected:
  Trainee trainee() const {
    Trainee all{.recipes = {GetParam().recipe}, .narrow = true, .absent_every = 4};
    if (std::holds_alternative<Spectral>(GetParam().recipe.preconditioner))
      all.shapes = {{6, 5}, {2, 9}, {12, 4}, {3, 3}};
    return all;
  }
  Arrangement on(int ranks, bool merges = true) const {
    return {.ranks = ranks, .groups = 3, .merges = merges, .rates = GetParam().rates};
  }

  static constexpr int steps = steps_before + steps_after;
};

TEST_P(NamedRecipes, GiveTheSameBitsMergedUnmergedAndOnThreeRanks) {
  const End<float> alone = train_first<float>(trainee(), on(1), steps);
  EXPECT_NE(alone.values, train_first<float>(trainee(), on(1), 0).values);
  EXPECT_EQ(train_first<float>(trainee(), on(1, false), steps), alone);
  EXPECT_EQ(train_first<float>(trainee(), on(3), steps), alone);
}

TEST_P(NamedRecipes, GoOnFromASavedStateOnAnotherNumberOfRanks) {
  const End<float> undisturbed = train_first<float>(trainee(), on(1), steps);
  EXPECT_EQ(train_on(train_first<float>(trainee(), on(3)), trainee(), on(2)), undisturbed);
}

/// Trains with gradients of zero, after one step with others if it `begins` so.
std::vector<std::vector<float>> train_on_zeros(const Recipe& recipe, const Rates& rates,
                                               bool begins, int steps) {
  const bool matrices = std::holds_alternative<Spectral>(recipe.preconditioner);
  ToyModel<float> model(matrices ? std::vector<std::vector<std::int64_t>>{{6, 5}, {14, 13}}
                                 : awkward_shapes());
  const auto backend = cpu_kernels({.threads = 1});
  const auto ranks = single_rank_communicator();
  ParameterGroup group = model.group(recipe);
  group.rates = rates;
  Optimizer optimizer(*backend, *ranks, {group});
  if (begins) optimizer.step();
  for (auto& tensor : model.tensors) std::ranges::fill(tensor.gradient, 0.0F);
  for (int step = 0; step < steps; ++step) EXPECT_TRUE(optimizer.step().applied());
  return model.values();
}

TEST_P(NamedRecipes, LeaveValuesAsTheyAreWithGradientsOfZeroAndNoDecay) {
  Rates rates = GetParam().rates;
  rates.weight_decay = 0;
  EXPECT_EQ(train_on_zeros(GetParam().recipe, rates, false, 7),
            train_on_zeros(GetParam().recipe, rates, false, 0));
}

TEST_P(NamedRecipes, DecayWithGradientsOfZero) {
  Rates rates = GetParam().rates;
  rates.weight_decay = 0.1;
  const auto before = train_on_zeros(GetParam().recipe, rates, false, 0);
  const auto after = train_on_zeros(GetParam().recipe, rates, false, 7);
  const auto sum = [](const std::vector<std::vector<float>>& values) {
    double all = 0;
    for (const auto& tensor : values)
      for (const float x : tensor) all += std::abs(x);
    return all;
  };
  EXPECT_LT(sum(after), sum(before));
  for (std::size_t t = 0; t < after.size(); ++t) EXPECT_NE(after[t], before[t]) << t;
}

TEST_P(NamedRecipes, MoveOnByTheirMomentumWithGradientsOfZero) {
  Rates rates = GetParam().rates;
  rates.weight_decay = 0;
  const Recipe& recipe = GetParam().recipe;
  const bool remembers =
      recipe.filter ? rates.beta1 > 0 : std::holds_alternative<Momentum>(recipe.averaging);
  EXPECT_EQ(train_on_zeros(GetParam().recipe, rates, true, 3) !=
                train_on_zeros(GetParam().recipe, rates, true, 0),
            remembers);
}

std::string name_of_recipe(const testing::TestParamInfo<Named>& info) { return info.param.name; }

TEST(Soap, LeavesVectorsToAdam) {
  ToyModel<float> soap_model({{7}, {6, 5}}), adam_model({{7}, {6, 5}});
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  ParameterGroup soap = soap_model.group(recipes::soap(), recipes::soap_rates());
  ParameterGroup adam = adam_model.group(recipes::adamw(), recipes::soap_rates());
  Optimizer optimizer(*backend, *ranks, {soap}), other(*backend, *ranks, {adam});
  const std::vector<std::string> of_vector = optimizer.slot_names(soap.parameters[0].name, 0);
  for (const std::string& name : of_vector) {
    EXPECT_FALSE(name.starts_with("factor/")) << name;
    EXPECT_FALSE(name.starts_with("basis/")) << name;
  }
  for (int step = 0; step < 12; ++step) {
    optimizer.step();
    other.step();
  }
  // The two divide by the square root and by a power, which may differ in the last bits.
  for (std::size_t i = 0; i < 7; ++i)
    EXPECT_NEAR(soap_model.tensors[0].value[i], adam_model.tensors[0].value[i], 1e-6);
  EXPECT_NE(soap_model.tensors[1].value, adam_model.tensors[1].value);
}

INSTANTIATE_TEST_SUITE_P(Of, NamedRecipes, testing::ValuesIn(named_recipes()), name_of_recipe);

/// One tensor trained by a recipe in float64.
class Trained {
 public:
  Trained(Recipe recipe, const Rates& rates) {
    recipe.arithmetic = Arithmetic::float64;
    ParameterGroup group = model.group(recipe);
    group.rates = rates;
    optimizer = std::make_unique<Optimizer>(*backend_, *ranks_, std::vector{group});
  }

  std::vector<double>& gradient() { return model.tensors[0].gradient; }
  std::vector<double> values() const { return model.values()[0]; }
  SlotView slot(const std::string& name) const { return optimizer->slot("tensor0", 0, name); }

  ToyModel<double> model{{{13, 3}}};

 private:
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> ranks_ = single_rank_communicator();

 public:
  std::unique_ptr<Optimizer> optimizer;
};

TEST(Lion, IsSignOfTheFilteredGradient) {
  const Rates rates{.learning_rate = 1e-2, .beta1 = 0.99, .weight_decay = 0.1, .beta3 = 0.9};
  Trained lion(recipes::lion(), rates);
  std::vector<double> w = lion.values(), m(w.size());
  for (int step = 0; step < 50; ++step) {
    lion.optimizer->step();
    // [Chen 2023, Algorithm 2]
    for (std::size_t i = 0; i < w.size(); ++i) {
      const double g = lion.gradient()[i], c = 0.9 * m[i] + (1 - 0.9) * g;
      w[i] -= 1e-2 * ((c > 0 ? 1 : c < 0 ? -1 : 0) + 0.1 * w[i]);
      m[i] = 0.99 * m[i] + (1 - 0.99) * g;
    }
    const std::vector<double> ours = lion.values();
    // The largest value is below 4; each of both updates rounds fewer than 8 times per step.
    for (std::size_t i = 0; i < w.size(); ++i)
      ASSERT_NEAR(ours[i], w[i], 8 * (step + 1) * 0x1p-53 * 4) << "element " << i;
    lion.model.new_gradients();
  }
}

TEST(TorchRecipes, HaveTorchsDefaults) {
  EXPECT_EQ(torch::sgd_rates(), Rates{});
  EXPECT_EQ(torch::adagrad_rates(), (Rates{.learning_rate = 1e-2, .epsilon = 1e-10}));
  EXPECT_EQ(torch::rmsprop_rates(), (Rates{.learning_rate = 1e-2, .beta2 = 0.99}));
  EXPECT_EQ(torch::adam_rates(), Rates{});
  EXPECT_EQ(torch::adamw_rates(), Rates{.weight_decay = 1e-2});
  EXPECT_EQ(torch::adamw(), recipes::adamw());
  EXPECT_EQ(torch::adam({.decoupled_weight_decay = true}), torch::adamw());
}

std::string refusal(const Recipe& recipe, const Rates& rates = {}) {
  return error_of<std::invalid_argument>([&] { const Trained refused(recipe, rates); });
}

TEST(DiagonalOptions, AreCheckedInBothRoles) {
  const Diagonal amsgrad = Adam{.drop_weighting = true, .amsgrad = true};
  EXPECT_EQ(refusal({.grafting = amsgrad}),
            "group 0: recipe.grafting.amsgrad must be false with drop_weighting, got true");
  const Preconditioner centered = RmsProp{.drop_weighting = true, .centered = true};
  EXPECT_EQ(refusal({.preconditioner = centered}),
            "group 0: recipe.preconditioner.centered must be false with drop_weighting, got true");
  for (const double value : {-0.1, std::nan(""), HUGE_VAL})
    expect_says(refusal(torch::adagrad({.initial_accumulator_value = value})),
                {"group 0: recipe.preconditioner.initial_accumulator must be in [0, inf)"});
  ToyModel<float> model{{{2, 2}}};
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  const Recipe overflowing = torch::adagrad({.initial_accumulator_value = 1e39});
  expect_says(error_of<std::invalid_argument>(
                  [&] { const Optimizer refused(*backend, *ranks, {model.group(overflowing)}); }),
              {"group 0: recipe.preconditioner.initial_accumulator must be finite in float32"});
}

TEST(DiagonalOptions, LearningRateDecayIsReadByAdaGradAsPreconditioner) {
  EXPECT_EQ(refusal({.grafting = AdaGrad{}}, {.learning_rate_decay = 0.1}),
            "group 0: learning_rate_decay must be 0, its default, as the group's recipe does not "
            "read it, got 0.1");
  for (const double value : {-0.1, std::nan(""), HUGE_VAL})
    expect_says(refusal(torch::adagrad(), {.learning_rate_decay = value}),
                {"group 0: learning_rate_decay must be in [0, inf)"});
}

TEST(TorchRecipes, RefuseNesterovWithoutMomentumOrWithDampening) {
  const std::string message =
      error_of<std::invalid_argument>([] { torch::sgd({.nesterov = true}); });
  expect_says(message, {"nesterov", "momentum 0", "dampening 0"});
  EXPECT_THROW(torch::sgd({.momentum = 0.9, .dampening = 0.5, .nesterov = true}),
               std::invalid_argument);
}

TEST(TorchRecipes, KeepNoMoreStateThanTheirOptionsNeed) {
  const auto names = [](const Recipe& recipe, const Rates& rates) {
    return Trained(recipe, rates).optimizer->slot_names("tensor0", 0);
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(torch::sgd(), torch::sgd_rates()), Names{});
  EXPECT_EQ(names(torch::adam({.amsgrad = true}), torch::adam_rates()),
            (Names{"second_moment", "second_moment_maximum", "filtered_gradient"}));
  const torch::RmspropOptions rmsprop{.momentum = 0.5, .centered = true};
  EXPECT_EQ(names(torch::rmsprop(rmsprop), torch::rmsprop_rates(rmsprop)),
            (Names{"second_moment", "second_moment_mean", "momentum"}));
}

TEST(TorchRecipes, WithoutAFilterReadNeitherBeta1NorBeta3) {
  for (const Rates& rates : {Rates{.beta1 = 0.5}, Rates{.beta3 = 0.5}})
    expect_says(refusal(torch::sgd(), rates), {"group 0: beta", "as the group's recipe does not"});
}

TEST(TorchRecipes, GoOnFromACheckpointWithoutAnyState) {
  const TemporaryFolder folder;
  Trained saved(torch::sgd(), torch::sgd_rates()), loaded(torch::sgd(), torch::sgd_rates());
  saved.optimizer->step();
  save(*saved.optimizer, folder.path());
  load(*loaded.optimizer, folder.path());
  EXPECT_EQ(loaded.optimizer->steps("tensor0"), 1);
}

TEST(TorchRecipes, BeginTheSumOfAdagradAtItsInitialValue) {
  const torch::AdagradOptions options{.initial_accumulator_value = 0.1};
  const Trained adagrad(torch::adagrad(options), torch::adagrad_rates(options));
  const auto* const sum = static_cast<const double*>(adagrad.slot("second_moment").data);
  for (int i = 0; i < 39; ++i) EXPECT_EQ(sum[i], 0.1);
}

TEST(TorchRecipes, LeaveTheBufferAloneWhileMomentumIsZero) {
  const torch::SgdOptions options{.momentum = 0.5, .dampening = 0.25};
  Trained sgd(torch::sgd(options), torch::sgd_rates(options));
  sgd.optimizer->step();
  const auto* const buffer = static_cast<const double*>(sgd.slot("momentum").data);
  // The first step is not damped.
  EXPECT_EQ(std::vector<double>(buffer, buffer + 39), sgd.gradient());
  const std::vector<double> before(buffer, buffer + 39), values = sgd.values();

  sgd.optimizer->group(0).rates.momentum = 0;
  sgd.optimizer->step();

  EXPECT_EQ(std::vector<double>(buffer, buffer + 39), before);
  std::vector<double> expected = values;
  for (std::size_t i = 0; i < 39; ++i) expected[i] += -1e-3 * sgd.gradient()[i];
  EXPECT_EQ(sgd.values(), expected);
}

}  // namespace
}  // namespace shampoo::test
