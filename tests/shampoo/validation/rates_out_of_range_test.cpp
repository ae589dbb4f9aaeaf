// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>

#include "tests/shampoo/validation/bad_input.h"

namespace shampoo::test {
namespace {

TEST_F(BadInput, RatesOutOfRangeAreNamed) {
  expect_rate_refused(&Rates::learning_rate, "learning_rate", {-1e-3, nan, infinity});
  expect_rate_refused(&Rates::beta1, "beta1", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::beta2, "beta2", {-0.1, 1.1, nan});
  expect_rate_refused(&Rates::epsilon, "epsilon", {0.0, -1e-8, nan, infinity});
  expect_rate_refused(&Rates::weight_decay, "weight_decay", {-0.1, nan, infinity});
  expect_rate_refused(&Rates::grafting_beta2, "grafting_beta2", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::grafting_epsilon, "grafting_epsilon", {0.0, -1.0, nan});
  expect_rate_refused(&Rates::momentum, "momentum", {-0.1, 1.0, nan});
  expect_rate_refused(&Rates::dampening, "dampening", {-0.1, 1.0, nan});
}

TEST_F(BadInput, RatesOfAveragingsOutOfRangeAreNamed) {
  const auto refused = [&](const Averaging& averaging, double Rates::*rate, double value,
                           const std::string& words) {
    expect_refused(
        [&](ParameterGroup& g) {
          g.recipe.averaging = averaging;
          g.rates.*rate = value;
        },
        {"group 1", words});
  };
  for (const double value : {-0.1, 0.0, 1.1, nan})
    for (const Averaging& averaging : {Averaging(PrimalAveraging{}), Averaging(ScheduleFree{})})
      refused(averaging, &Rates::train_interpolation, value,
              "train_interpolation must be in (0, 1]");
  for (const double value : {-0.1, 1.0, nan})
    refused(PrimalAveraging{}, &Rates::evaluation_interpolation, value,
            "evaluation_interpolation must be in [0, 1)");
  refused(ScheduleFree{}, &Rates::evaluation_interpolation, 0.5,
          "evaluation_interpolation must be 0.9, its default");
  refused(NoAveraging{}, &Rates::train_interpolation, 0.5,
          "train_interpolation must be 0.8, its default");
  refused(PrimalAveraging{}, &Rates::momentum, 0.5, "momentum must be 0, its default");
  for (const double power : {-1.0, nan, infinity})
    refused(ScheduleFree{.power = power}, &Rates::weight_decay, 0,
            "recipe.averaging.power must be in [0, inf)");
}

TEST_F(BadInput, OptionalRatesOutOfRangeAreNamed) {
  for (const double value : {-0.1, 1.0, nan})
    expect_refused([&](ParameterGroup& g) { g.rates.beta3 = value; }, {"group 1", "beta3"});
  for (const double value : {-1.0, 0.0, nan, infinity})
    expect_refused(
        [&](ParameterGroup& g) {
          g.recipe.weight_decay = WeightDecay::corrected;
          g.rates.peak_learning_rate = value;
        },
        {"group 1", "peak_learning_rate", "in (0, 2^128)"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe.weight_decay = WeightDecay::corrected;
        g.rates.learning_rate = 0;
      },
      {"group 1", "peak_learning_rate"});
}

TEST_F(BadInput, RatesThatTheRecipeDoesNotReadKeepTheirDefaults) {
  expect_refused([](ParameterGroup& g) { g.rates.momentum = 0.9; },
                 {"group 1", "momentum", "must be 0, its default", "got 0.9"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe = recipes::adamw();
        g.rates.grafting_beta2 = 0.95;
      },
      {"group 1", "grafting_beta2", "must be 0.999", "set beta2 instead"});
  expect_refused(
      [](ParameterGroup& g) {
        g.recipe.refresh.first = std::nullopt;
        g.rates.epsilon = 1e-6;
      },
      {"group 1", "epsilon", "set grafting_epsilon instead"});
  expect_refused([](ParameterGroup& g) { g.rates.peak_learning_rate = 1e-3; },
                 {"group 1", "peak_learning_rate", "must be unset", "got 0.001"});
}

}  // namespace
}  // namespace shampoo::test
