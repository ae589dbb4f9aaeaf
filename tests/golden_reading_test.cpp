// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tests/golden_test_json.h"
#include "tests/golden_test_recipe.h"
#include "tests/golden_test_torch.h"

namespace shampoo::test {
namespace {

/// A recipe of shampoo with these further keys.
Recipe read(const std::string& preconditioner, const std::string& recipe) {
  const Json json =
      Json::parse(R"({"preconditioner":{"kind":"shampoo")" + preconditioner + "}" + recipe + "}");
  return recipe_of({json, "recipe"});
}

const RootInverse& preconditioner_of(const Recipe& recipe) {
  return std::get<RootInverse>(recipe.preconditioner);
}

TEST(GoldenReading, GivesDefaultsWhereNothingIsSaid) {
  const Recipe recipe = read("", "");

  EXPECT_EQ(recipe, (Recipe{.preconditioner = RootInverse{.solver = Eigen{}},
                            .grafting = std::nullopt,
                            .refresh = {.every = 1, .first = 1, .staggered = false},
                            .blocking = {.size = 1024, .target_order = 1},
                            .arithmetic = Arithmetic::float64}));
}

TEST(GoldenReading, StartsAtTheFrequencyOrAtTheGivenStepOrNever) {
  EXPECT_EQ(read("", R"(,"precondition_frequency":4)").refresh.first, 4);
  EXPECT_EQ(read("", R"(,"start_preconditioning_step":7)").refresh.first, 7);
  EXPECT_EQ(read("", R"(,"start_preconditioning_step":"never")").refresh.first, std::nullopt);
}

TEST(GoldenReading, TakesExponentsOfOrdersAndOfDimensions) {
  const Recipe recipe = read(R"(,"exponents":{"1":0.5,"2":{"1":0}})", "");

  EXPECT_EQ(preconditioner_of(recipe).exponents,
            (std::vector<Exponent>{{1, std::nullopt, 0.5}, {2, 1, 0}}));
}

TEST(GoldenReading, TakesTolerancesOfAPseudoInverse) {
  const Recipe recipe = read(
      R"(,"solver":{"kind":"eigen","pseudo_inverse":true,"rank_absolute_tolerance":0.25})", "");

  EXPECT_EQ(preconditioner_of(recipe).solver,
            Solver(Eigen{.pseudo_inverse = PseudoInverse{0.0, 0.25}}));
}

TEST(GoldenReading, TakesBasesByQrAndDimensionsWithoutAChangeOfBasis) {
  const Json json = Json::parse(
      R"({"preconditioner":{"kind":"eigenvalue_corrected_shampoo",
          "solver":{"kind":"qr","tolerance":0.5},"ignored_basis_change_dims":{"2":[0,1]}}})");

  EXPECT_EQ(recipe_of({json, "recipe"}).preconditioner,
            Preconditioner(EigenvalueCorrected{
                .solver = Qr{.tolerance = 0.5},
                .ignored_basis_change_dims = {{.order = 2, .dimensions = {0, 1}}}}));
}

TEST(GoldenReading, TakesBothFormsOfKullbackLeibler) {
  const auto read_kind = [](const char* kind) {
    const Json json = {{"preconditioner", {{"kind", kind}}}};
    return recipe_of({json, "recipe"}).preconditioner;
  };
  EXPECT_EQ(read_kind("kl_shampoo"),
            Preconditioner(KullbackLeibler{.form = RootInverse{.solver = Eigen{}}}));
  EXPECT_EQ(read_kind("eigendecomposed_kl_shampoo"),
            Preconditioner(KullbackLeibler{.form = Eigendecomposed{}}));
}

TEST(GoldenReading, RefusesUnknownKeysAndValues) {
  for (const char* preconditioner : {
           R"(,"order":2)",
           R"(,"ignored_basis_change_dims":{})",
           R"(,"drop_weighting":1)",
           R"(,"trace_scaling":"half")",
           R"(,"exponents":{"two":0.5})",
           R"(,"exponents":{"2":{"0":null}})",
           R"(,"solver":{"kind":"qr"})",
           R"(,"solver":{"kind":"eigen","iterations":3})",
           R"(,"solver":{"kind":"eigen","rank_relative_tolerance":0.1})",
           R"(,"solver":{"kind":"coupled_newton","max_iterations":1.5,"tolerance":0})",
           R"(,"solver":{"kind":"coupled_newton"})",
       })
    EXPECT_THROW(read(preconditioner, ""), std::invalid_argument) << preconditioner;
  for (const char* recipe : {
           R"(,"epsilon":1)",
           R"(,"grafting":{"kind":"lamb"})",
           R"(,"grafting":{"kind":"adagrad","drop_weighting":true})",
           R"(,"grafting":{"kind":"adam","beta1":0.5})",
           R"(,"weight_decay":"none")",
           R"(,"averaging":{"kind":"polyak"})",
           R"(,"averaging":{"kind":"schedule_free","power":"2"})",
           R"(,"averaging":{"kind":"generalized_primal_averaging","power":2})",
           R"(,"averaging":{"kind":"momentum","power":2})",
           R"(,"block_size":"8")",
           R"(,"start_preconditioning_step":"later")",
       })
    EXPECT_THROW(read("", recipe), std::invalid_argument) << recipe;
}

TEST(GoldenReading, TakesAveragingsOfIterates) {
  EXPECT_EQ(read("", R"(,"averaging":{"kind":"schedule_free"})").averaging,
            Averaging(ScheduleFree{}));
  EXPECT_EQ(read("", R"(,"averaging":{"kind":"schedule_free","power":0.5})").averaging,
            Averaging(ScheduleFree{.power = 0.5}));
  const Recipe primal = read("", R"(,"averaging":{"kind":"generalized_primal_averaging"})");
  EXPECT_EQ(primal.averaging, Averaging(PrimalAveraging{}));
  const Json json = Json::parse(R"({"learning_rate":1,"beta1":0,"beta2":0.5,"epsilon":2,
                                    "eval_interpolation":0.25,"train_interpolation":0.75})");
  EXPECT_EQ(rates_of({json, "rates"}, primal), (Rates{.learning_rate = 1,
                                                      .beta1 = 0,
                                                      .beta2 = 0.5,
                                                      .epsilon = 2,
                                                      .train_interpolation = 0.75,
                                                      .evaluation_interpolation = 0.25}));
}

TEST(GoldenReading, TakesRatesThatAreReadAndAbsentForZero) {
  const Json json = Json::parse(R"({"learning_rate":1,"beta1":0.5,"beta2":0.25,"epsilon":2})");
  const Recipe grafted = read("", R"(,"grafting":{"kind":"adam"})");

  EXPECT_EQ(rates_of({json, "rates"}, grafted), (Rates{.learning_rate = 1,
                                                       .beta1 = 0.5,
                                                       .beta2 = 0.25,
                                                       .epsilon = 2,
                                                       .grafting_beta2 = 0,
                                                       .grafting_epsilon = 0}));
}

GoldenGroup read_torch(const std::string& name, const std::string& group,
                       const std::string& constructor = "{}") {
  const Json json = Json::parse(group);
  return torch_group_of({name, Json::parse(constructor)}, {json, "group"}, 2);
}

TEST(GoldenReading, TakesKeywordsOfTorchsGroupsBeforeThoseOfTheConstructor) {
  const GoldenGroup group =
      read_torch("Adagrad", R"({"torch":{"lr":0.5,"initial_accumulator_value":7,"fused":null}})",
                 R"({"lr":0.25,"eps":0.125,"initial_accumulator_value":3})");

  EXPECT_EQ(group.rates, (Rates{.learning_rate = 0.5, .epsilon = 0.125}));
  EXPECT_EQ(group.recipe.preconditioner, Preconditioner(AdaGrad{.initial_accumulator = 3}));
}

TEST(GoldenReading, TakesSchedulesByTorchsNames) {
  const GoldenGroup adam = read_torch(
      "Adam", R"({"torch":{},"schedule":{"lr":[1,2],"betas":[[0.5,0.25],[0.75,0.125]]}})");
  const GoldenGroup sgd = read_torch("SGD", R"({"torch":{},"schedule":{"momentum":[0,0.5]}})");

  EXPECT_EQ(adam.schedule,
            (std::map<std::string, Numbers>{
                {"learning_rate", {1, 2}}, {"beta1", {0.5, 0.75}}, {"beta2", {0.25, 0.125}}}));
  EXPECT_EQ(sgd.recipe.averaging, Averaging(Momentum{.undamped_start = true}));
  EXPECT_EQ(sgd.rates.momentum, 0);
}

TEST(GoldenReading, RefusesWhatTorchDoesNotHave) {
  for (const char* group :
       {R"({"torch":{"momentum":0.5}})", R"({"torch":{"lr":"1"}})", R"({"torch":{"fused":2}})",
        R"({"torch":{"betas":[0.5]}})", R"({"torch":{},"rates":{}})",
        R"({"torch":{},"schedule":{"gamma":[1,2]}})", R"({"torch":{},"schedule":{"lr":[1]}})"})
    EXPECT_ANY_THROW(read_torch("Adam", group)) << group;
  EXPECT_ANY_THROW(read_torch("Adadelta", R"({"torch":{}})"));
  EXPECT_ANY_THROW(read_torch("SGD", R"({"torch":{"nesterov":true}})"));
}

TEST(GoldenReading, RefusesRatesThatAreUnknownOrMissing) {
  const Recipe recipe = read("", "");
  for (const char* rates : {
           R"({"learning_rate":1,"beta1":0.5,"beta2":0.25})",
           R"({"learning_rate":1,"beta1":0.5,"beta2":0.25,"epsilon":2,"gamma":1})",
           R"({"learning_rate":"1","beta1":0.5,"beta2":0.25,"epsilon":2})",
       }) {
    const Json json = Json::parse(rates);
    EXPECT_THROW(rates_of({json, "rates"}, recipe), std::invalid_argument) << rates;
  }
}

}  // namespace
}  // namespace shampoo::test
