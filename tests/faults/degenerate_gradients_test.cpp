// SPDX-License-Identifier: Apache-2.0
// Gradients at the edges of what a decomposition takes: all ranks compute what one rank does.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/ranks_at.h"

namespace shampoo::test {
namespace {

/// Element (i, j) of a gradient in step s; a tensor that is no matrix has one row.
using Element = std::function<float(std::int64_t i, std::int64_t j, int s)>;

struct Kind {
  std::string name;
  Element element;
};

struct Outcome {
  std::vector<std::vector<float>> values;
  std::string error;  ///< of the first step that threw
  Statistics statistics;
};

const std::vector<std::vector<std::int64_t>> shapes = {{1, 1}, {0, 5}, {0},    {},     {1},
                                                       {8, 8}, {5, 7}, {9, 8}, {3, 0}, {17, 3}};

Outcome train(Communicator& ranks, kernels::Backend& backend, const Element& element) {
  ToyModel<float> model(shapes, 1, &backend);
  Recipe recipe = quick_recipe();
  recipe.blocking.target_order = grouping::any_order;
  recipe.refresh = {.every = 2, .first = 1};
  Optimizer optimizer(backend, ranks, {model.group(recipe, {.epsilon = 1e-12})});
  Outcome outcome;
  try {
    for (int step = 0; step < 7; ++step) {
      for (auto& tensor : model.tensors) {
        const auto columns =
            tensor.shape.empty() ? 1 : std::max<std::int64_t>(tensor.shape.back(), 1);
        for (std::size_t e = 0; e < tensor.gradient.size(); ++e) {
          const auto at = static_cast<std::int64_t>(e);
          tensor.gradient[e] = element(at / columns, at % columns, step);
        }
      }
      model.send_gradients();
      optimizer.step();
    }
    optimizer.latest_result().applied();  // throws what the last step met
  } catch (const NumericalError& error) {
    outcome.error = error.what();
  }
  outcome.values = model.values();
  outcome.statistics = optimizer.statistics();
  return outcome;
}

std::vector<Outcome> train_on(Place place, int count, const Element& element) {
  std::vector<Outcome> outcomes(static_cast<std::size_t>(count));
  run_ranks_at(place, count, [&](Communicator& ranks, kernels::Backend& backend) {
    outcomes[static_cast<std::size_t>(ranks.rank())] = train(ranks, backend, element);
  });
  return outcomes;
}

/// Several ranks; none where each would need a GPU of its own.
std::vector<Outcome> train_on_many(Place place, const Element& element) {
  return place == Place::cuda ? std::vector<Outcome>() : train_on(place, 3, element);
}

bool all_finite(const Outcome& outcome) {
  for (const auto& values : outcome.values)
    for (const float x : values)
      if (!std::isfinite(x)) return false;
  return true;
}

constexpr float tiny = std::numeric_limits<float>::denorm_min();

class DegenerateGradients : public testing::TestWithParam<std::tuple<Kind, Place>> {
 protected:
  void SetUp() override { require(std::get<Place>(GetParam())); }
};

TEST_P(DegenerateGradients, GiveFiniteValuesAndTheSameBitsOnThreeRanksAsOnOne) {
  const auto& [kind, place] = GetParam();
  const Outcome alone = train_on(place, 1, kind.element).front();

  EXPECT_EQ(alone.error, "");
  EXPECT_TRUE(all_finite(alone));
  EXPECT_EQ(alone.statistics.applied_steps, 7);
  for (const Outcome& outcome : train_on_many(place, kind.element)) {
    EXPECT_EQ(outcome.error, "");
    EXPECT_EQ(outcome.values, alone.values);
  }
}

std::string name_of_case(const testing::TestParamInfo<std::tuple<Kind, Place>>& tested) {
  return std::get<Kind>(tested.param).name + "_" + name_of(std::get<Place>(tested.param));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, DegenerateGradients,
    testing::Combine(
        testing::Values(
            Kind{"Zero", [](auto, auto, int) { return 0.0F; }},
            Kind{"NegativeZero", [](auto, auto, int) { return -0.0F; }},
            Kind{"Denormal",
                 [](auto i, auto j, int s) {
                   return tiny * static_cast<float>(1 + (3 * i + 5 * j + s) % 11);
                 }},
            Kind{"SquaresDenormal",
                 [](auto i, auto j, int s) {
                   return 1e-20F * static_cast<float>(1 + (i + j + s) % 5);
                 }},
            Kind{"OneElement", [](auto i, auto j, int) { return i == 0 && j == 0 ? 1.0F : 0.0F; }},
            Kind{"RankOne",
                 [](auto i, auto j, int) { return static_cast<float>((i + 1) * (j + 1)) / 8; }},
            Kind{"Constant", [](auto, auto, int) { return 1.0F; }},
            Kind{"RepeatedEigenvalues", [](auto i, auto j, int) { return i == j ? 1.0F : 0.0F; }},
            Kind{"Reflection",
                 [](auto i, auto j, int) { return (i == j ? 1.0F : 0.0F) - 2.0F / 8; }},
            Kind{"ThirtyOrdersOfMagnitude",
                 [](auto i, auto,
                    int) { return std::pow(10.0F, -4.0F * static_cast<float>(i % 8)); }},
            Kind{"FromZeroToLarge",
                 [](auto i, auto j,
                    int s) { return s < 3 ? 0.0F : static_cast<float>(i - j) * 1e6F; }}),
        testing::ValuesIn(all_places)),
    name_of_case);

class GradientsWhoseSquaresOverflow : public testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Everywhere, GradientsWhoseSquaresOverflow, testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST_P(GradientsWhoseSquaresOverflow, LeaveNoRootButFiniteValuesAndAreTheSameErrorOnAllRanks) {
  const Element huge = [](auto i, auto j, int) { return 1e25F * static_cast<float>(1 + i + j); };
  const Outcome alone = train_on(GetParam(), 1, huge).front();
  const std::vector<Outcome> many = train_on_many(GetParam(), huge);

  // Of what a device met, other ranks hear in the next step.
  const int later = GetParam() == Place::cpu ? 0 : 1;

  EXPECT_NE(alone.error.find("could not be refreshed"), std::string::npos) << alone.error;
  EXPECT_TRUE(all_finite(alone));
  for (const Outcome& outcome : many) {
    EXPECT_NE(outcome.error.find("could not be refreshed"), std::string::npos);
    EXPECT_EQ(outcome.error, many.front().error);
    EXPECT_EQ(outcome.values, alone.values);
    EXPECT_EQ(outcome.statistics.applied_steps, alone.statistics.applied_steps + later);
  }
}

}  // namespace
}  // namespace shampoo::test
