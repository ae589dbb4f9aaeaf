// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

class NonFiniteGradient : public ::testing::TestWithParam<float> {
 protected:
  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = one_rank();
  ToyModel<float> model{{{9, 8}, {13}, {20, 3}}};
};

TEST_P(NonFiniteGradient, RefusesTheStepForAllParametersAndChangesNothing) {
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe(), {.weight_decay = 0.1})});
  optimizer.step();  // the next one refreshes
  const auto values = model.values();
  const auto state = state_of(optimizer, model);

  model.tensors[1].gradient[5] = GetParam();
  const StepResult result = optimizer.step();

  EXPECT_FALSE(result.applied());
  EXPECT_EQ(result.non_finite_gradient(), "tensor1");
  EXPECT_EQ(model.values(), values);
  EXPECT_EQ(state_of(optimizer, model), state);
  EXPECT_EQ(optimizer.steps("tensor0"), 1);
  EXPECT_EQ(optimizer.statistics().refused_steps, 1);
  EXPECT_EQ(optimizer.statistics().applied_steps, 1);
}

TEST_P(NonFiniteGradient, DoesNotChangeWhatLaterStepsCompute) {
  ToyModel<float> undisturbed({{9, 8}, {13}, {20, 3}});
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())});
  Optimizer other(*backend, *ranks, {undisturbed.group(quick_recipe())});

  for (int step = 0; step < 6; ++step) {
    const float kept = std::exchange(model.tensors[2].gradient[59], GetParam());
    EXPECT_FALSE(optimizer.step().applied());
    model.tensors[2].gradient[59] = kept;
    EXPECT_TRUE(optimizer.step().applied());
    other.step();
  }

  EXPECT_EQ(model.values(), undisturbed.values());
}

TEST_P(NonFiniteGradient, IsAnErrorAfterSoManyInARow) {
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())}, {.refused_in_a_row = 3});
  const float kept = std::exchange(model.tensors[0].gradient[0], GetParam());
  const auto refuse = [&] { return optimizer.step().applied(); };

  EXPECT_FALSE(refuse());
  EXPECT_FALSE(refuse());
  model.tensors[0].gradient[0] = kept;
  EXPECT_TRUE(optimizer.step().applied());
  model.tensors[0].gradient[0] = GetParam();
  EXPECT_FALSE(refuse());
  EXPECT_FALSE(refuse());
  try {
    refuse();
    FAIL() << "the third refused step in a row must throw";
  } catch (const NumericalError& error) {
    EXPECT_NE(std::string(error.what()).find("tensor0"), std::string::npos) << error.what();
  }
}

TEST_P(NonFiniteGradient, IsAnErrorAtOnceByOption) {
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())},
                      {.non_finite = NonFinite::error});
  model.tensors[0].gradient[0] = GetParam();
  const auto values = model.values();

  EXPECT_THROW(optimizer.step(), NumericalError);

  EXPECT_EQ(model.values(), values);
}

TEST_P(NonFiniteGradient, IsUsedByOption) {
  Optimizer optimizer(*backend, *ranks, {model.group(quick_recipe())},
                      {.non_finite = NonFinite::ignore});
  model.tensors[0].gradient[0] = GetParam();
  const auto values = model.values();

  const StepResult result = optimizer.step();

  EXPECT_TRUE(result.applied());
  EXPECT_EQ(result.non_finite_gradient(), "tensor0");
  EXPECT_NE(model.tensors[1].value, values[1]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, NonFiniteGradient,
                         ::testing::Values(infinity, -infinity,
                                           std::numeric_limits<float>::quiet_NaN()));

}  // namespace
}  // namespace shampoo::test
