// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <tuple>
#include <utility>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/backends.h"

namespace shampoo::test {
namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

const std::vector<std::vector<std::int64_t>> skipping_shapes = {{9, 8}, {13}, {20, 3}};

class NonFiniteGradient : public ::testing::TestWithParam<std::tuple<Place, float>> {
 protected:
  void SetUp() override {
    const Place place = std::get<Place>(GetParam());
    require(place);
    if (IsSkipped() || HasFatalFailure()) return;
    backend = backend_at(place);
    ranks = single_rank_communicator(backend->memory_kind());
    model_ = std::make_unique<ToyModel<float>>(skipping_shapes, 1, backend.get());
  }

  ToyModel<float>& model() { return *model_; }
  /// Returns what was there.
  float set_gradient(std::size_t tensor, std::size_t element, float value) {
    const float kept = std::exchange(model_->tensors[tensor].gradient[element], value);
    model_->send_gradients();
    return kept;
  }

  float bad = std::get<float>(GetParam());
  std::shared_ptr<kernels::Backend> backend;
  std::unique_ptr<Communicator> ranks;

 private:
  std::unique_ptr<ToyModel<float>> model_;
};

TEST_P(NonFiniteGradient, RefusesTheStepForAllParametersAndChangesNothing) {
  Optimizer optimizer(*backend, *ranks, {model().group(quick_recipe(), {.weight_decay = 0.1})});
  optimizer.step();  // the next one refreshes
  const auto values = model().values();
  const auto state = state_of(optimizer, model());

  set_gradient(1, 5, bad);
  const StepResult result = optimizer.step();

  EXPECT_FALSE(result.applied());
  EXPECT_EQ(result.non_finite_gradient(), "tensor1");
  EXPECT_EQ(model().values(), values);
  EXPECT_EQ(state_of(optimizer, model()), state);
  EXPECT_EQ(optimizer.steps("tensor0"), 1);
  EXPECT_EQ(optimizer.statistics().skipped_steps, 1);
  EXPECT_EQ(optimizer.statistics().applied_steps, 1);
}

TEST_P(NonFiniteGradient, DoesNotChangeWhatLaterStepsCompute) {
  ToyModel<float> undisturbed(skipping_shapes, 1, backend.get());
  Optimizer optimizer(*backend, *ranks, {model().group(quick_recipe())});
  Optimizer other(*backend, *ranks, {undisturbed.group(quick_recipe())});

  for (int step = 0; step < 6; ++step) {
    const float kept = set_gradient(2, 59, bad);
    EXPECT_FALSE(optimizer.step().applied());
    set_gradient(2, 59, kept);
    EXPECT_TRUE(optimizer.step().applied());
    other.step();
  }

  EXPECT_EQ(model().values(), undisturbed.values());
}

TEST_P(NonFiniteGradient, IsAnErrorAfterSoManyInARow) {
  Optimizer optimizer(*backend, *ranks, {model().group(quick_recipe())}, {.skipped_in_a_row = 3});
  const float kept = set_gradient(0, 0, bad);
  const auto refuse = [&] { return optimizer.step().applied(); };

  EXPECT_FALSE(refuse());
  EXPECT_FALSE(refuse());
  set_gradient(0, 0, kept);
  EXPECT_TRUE(optimizer.step().applied());
  set_gradient(0, 0, bad);
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
  Optimizer optimizer(*backend, *ranks, {model().group(quick_recipe())},
                      {.non_finite = NonFinite::error});
  set_gradient(0, 0, bad);
  const auto values = model().values();

  EXPECT_THROW((void)optimizer.step().applied(), NumericalError);

  EXPECT_EQ(model().values(), values);
}

TEST_P(NonFiniteGradient, IsUsedByOption) {
  Optimizer optimizer(*backend, *ranks, {model().group(quick_recipe())},
                      {.non_finite = NonFinite::ignore});
  set_gradient(0, 0, bad);
  const auto values = model().values();

  const StepResult result = optimizer.step();

  EXPECT_TRUE(result.applied());
  EXPECT_EQ(result.non_finite_gradient(), "tensor0");
  EXPECT_NE(model().values()[1], values[1]);
}

TEST_P(NonFiniteGradient, IsOneInTheArithmeticOfItsOwnGroup) {
  std::vector<double> values(3, 1), gradients(3, 1e39);
  Placed<double> placed_values(backend.get(), values), placed_gradients(backend.get(), gradients);
  Parameter wide{.name = "wide",
                 .shape = {3},
                 .value = {placed_values.data(), Type::float64},
                 .gradient = {placed_gradients.data(), Type::float64}};
  ParameterGroup in_double = model().group(quick_recipe());
  in_double.recipe.arithmetic = Arithmetic::float64;
  Optimizer optimizer(*backend, *ranks,
                      {in_double, {.parameters = {wide}, .recipe = recipes::adamw()}});

  EXPECT_EQ(optimizer.step().non_finite_gradient(), "wide");
  gradients.assign(3, 3);
  placed_gradients.send();
  EXPECT_TRUE(optimizer.step().applied());
}

std::string kind_of(float value) {
  return value != value ? "nan" : value > 0 ? "infinity" : "minus_infinity";
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, NonFiniteGradient,
    ::testing::Combine(::testing::ValuesIn(all_places),
                       ::testing::Values(infinity, -infinity,
                                         std::numeric_limits<float>::quiet_NaN())),
    [](const auto& tested) {
      return name_of(std::get<Place>(tested.param)) + "_" + kind_of(std::get<float>(tested.param));
    });

}  // namespace
}  // namespace shampoo::test
