// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/toy_model.h"
#include "tests/support/device/backends.h"
#include "tests/support/read_rates.h"

namespace shampoo::test {
namespace {

/// Every group has rates of its own.
Rates rates_of(int group) {
  const double g = group;
  return {.learning_rate = 1e-3 * (1 + g),
          .beta1 = group % 3 == 0 ? 0.0 : 0.9 - 0.01 * (group % 7),
          .beta2 = group % 4 == 0 ? 1.0 : 0.99,
          .epsilon = 1e-6 * (1 + g),
          .weight_decay = group % 2 == 0 ? 0.0 : 0.1,
          .beta3 = group % 5 == 0 ? std::optional<double>(0.5) : std::nullopt,
          .grafting_beta2 = 0.95,
          .grafting_epsilon = 1e-8,
          .momentum = 0.5,
          .dampening = 0.1};
}

template <typename Scalar>
std::vector<std::vector<Scalar>> train(const std::vector<std::vector<std::int64_t>>& shapes,
                                       const Recipe& recipe, bool merges, int steps,
                                       Place place = Place::cpu) {
  const auto backend = backend_at(place);
  const auto ranks = single_rank_communicator(backend->memory_kind());
  ToyModel<Scalar> model(shapes, 1, backend.get());
  auto groups = model.groups(recipe, {});
  for (std::size_t g = 0; g < groups.size(); ++g)
    groups[g].rates = read_rates(recipe, rates_of(static_cast<int>(g)));
  Optimizer optimizer(*backend, *ranks, groups, {.merge_groups = merges});
  for (int step = 0; step < steps; ++step) {
    for (int g = 0; g < optimizer.group_count(); ++g)
      optimizer.group(g).rates.learning_rate *= 0.9 + 0.01 * (g % 5);
    optimizer.step();
    model.new_gradients();
  }
  return model.values();
}

Recipe recipe_of(Arithmetic arithmetic, WeightDecay decay) {
  Recipe recipe = quick_recipe();
  recipe.arithmetic = arithmetic;
  recipe.weight_decay = decay;
  recipe.averaging = Momentum{.nesterov = true};
  return recipe;
}

class MergedGroups : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require(GetParam()); }

  template <typename Scalar>
  void expect_the_bits_of_unmerged_ones(const Recipe& recipe, int steps) {
    const auto merged = train<Scalar>(shapes_, recipe, true, steps, GetParam());
    EXPECT_EQ(merged, train<Scalar>(shapes_, recipe, false, steps, GetParam()));
    EXPECT_NE(merged, ToyModel<Scalar>(shapes_).values()) << "trained";
  }

  // A device refreshes once, in the second step, and uses its roots in both that follow.
  int steps_ = GetParam() == Place::cpu ? 8 : 4;
  std::vector<std::vector<std::int64_t>> shapes_ =
      GetParam() == Place::cpu
          ? awkward_shapes()
          : std::vector<std::vector<std::int64_t>>{{}, {1, 7}, {9, 8}, {13}, {3, 4, 5}};
};

TEST_P(MergedGroups, GiveTheSameBitsAsUnmergedOnesInFloat32) {
  for (const WeightDecay decay :
       {WeightDecay::decoupled, WeightDecay::l2, WeightDecay::corrected, WeightDecay::plain})
    expect_the_bits_of_unmerged_ones<float>(recipe_of(Arithmetic::float32, decay), steps_);
}

TEST_P(MergedGroups, GiveTheSameBitsAsUnmergedOnesInFloat64) {
  for (const WeightDecay decay :
       {WeightDecay::decoupled, WeightDecay::l2, WeightDecay::corrected, WeightDecay::plain})
    expect_the_bits_of_unmerged_ones<double>(recipe_of(Arithmetic::float64, decay), steps_);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, MergedGroups, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

TEST(AThousandMergedGroups, GiveTheSameBitsAsUnmergedOnes) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (int i = 0; i < 1000; ++i)
    shapes.push_back(awkward_shapes()[static_cast<std::size_t>(i) % 10]);
  const Recipe single = recipe_of(Arithmetic::float32, WeightDecay::decoupled);
  const Recipe wide = recipe_of(Arithmetic::float64, WeightDecay::decoupled);

  EXPECT_EQ(train<float>(shapes, single, true, 5), train<float>(shapes, single, false, 5));
  EXPECT_EQ(train<double>(shapes, wide, true, 5), train<double>(shapes, wide, false, 5));
}

}  // namespace
}  // namespace shampoo::test
