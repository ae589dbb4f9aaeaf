// SPDX-License-Identifier: Apache-2.0
// A gradient of zeros is a gradient: the step is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/shampoo/preconditioners/all_kinds.h"
#include "tests/shampoo/toy_model.h"

namespace shampoo::test {
namespace {

class ZeroGradients : public ::testing::TestWithParam<Preconditioner> {
 protected:
  ZeroGradients() {
    recipe_.preconditioner = GetParam();
    recipe_.grafting = std::nullopt;
  }

  static std::vector<std::vector<std::int64_t>> shapes() {
    if (takes_matrices_only(GetParam())) return {{9, 8}, {6, 6}, {20, 3}};
    return {{9, 8}, {13}, {1, 7}, {}, {3, 4, 5}};
  }
  Optimizer made(const Rates& rates) {
    return {*backend_, *ranks_, {model_.group(recipe_, rates)}};
  }
  void zero_gradients() {
    for (auto& tensor : model_.tensors) std::ranges::fill(tensor.gradient, 0.0F);
  }

  ToyModel<float> model_{shapes()};
  Recipe recipe_ = quick_recipe();
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> ranks_ = single_rank_communicator();
};

TEST_P(ZeroGradients, ChangeNoValueWithoutDecayButCount) {
  Optimizer optimizer = made({});
  zero_gradients();
  const auto before = model_.values();
  for (int step = 0; step < 4; ++step) EXPECT_TRUE(optimizer.step().applied());
  EXPECT_EQ(model_.values(), before);
  for (const auto& tensor : model_.tensors) EXPECT_EQ(optimizer.steps(tensor.name), 4);
  EXPECT_EQ(optimizer.statistics().non_finite_directions, 0);
}

TEST_P(ZeroGradients, LetValuesDecay) {
  Optimizer optimizer = made({.learning_rate = 0.5, .weight_decay = 0.5});
  zero_gradients();
  auto expected = model_.values();
  for (int step = 0; step < 4; ++step) {
    optimizer.step();
    for (auto& values : expected)
      for (float& w : values) w *= 0.75F;
  }
  for (std::size_t t = 0; t < expected.size(); ++t)
    for (std::size_t i = 0; i < expected[t].size(); ++i)
      EXPECT_FLOAT_EQ(model_.tensors[t].value[i], expected[t][i]) << t << ' ' << i;
}

/// M <- beta1 M. In eigenbases, which turn, so does its norm.
TEST_P(ZeroGradients, LetTheFirstMomentDecay) {
  Optimizer optimizer = made({.beta1 = 0.5});
  optimizer.step();
  const auto square = [&] {
    double sum = 0;
    for (const StateTensor& tensor : optimizer.state_dict().tensors) {
      if (!tensor.slot.ends_with("filtered_gradient")) continue;
      const auto* numbers = reinterpret_cast<const float*>(tensor.bytes.data());
      for (std::int64_t i = 0; i < tensor.count(); ++i) sum += double{numbers[i]} * numbers[i];
    }
    return sum;
  };
  const double before = square();
  EXPECT_GT(before, 0);
  zero_gradients();
  for (int step = 0; step < 3; ++step) optimizer.step();
  EXPECT_NEAR(square(), std::pow(0.25, 3) * before, 1e-5 * before);
}

/// B <- momentum B, and values follow it.
TEST_P(ZeroGradients, LetMomentumMoveValuesOn) {
  recipe_.filter = false;
  recipe_.averaging = Momentum{};
  Optimizer optimizer = made({.learning_rate = 0.125, .momentum = 0.5});
  const auto first = model_.values();
  optimizer.step();
  const auto second = model_.values();
  zero_gradients();
  optimizer.step();
  const auto third = model_.values();
  for (std::size_t t = 0; t < first.size(); ++t)
    for (std::size_t i = 0; i < first[t].size(); ++i) {
      const double a = first[t][i], b = second[t][i], c = third[t][i];
      EXPECT_NE(a, b);
      // b and c are rounded, and the two updates are.
      const double most = std::max({std::abs(a), std::abs(b), std::abs(c)});
      EXPECT_NEAR(c - b, 0.5 * (b - a), 4 * std::numeric_limits<float>::epsilon() * most);
    }
}

INSTANTIATE_TEST_SUITE_P(All, ZeroGradients, ::testing::ValuesIn(all_kinds()), name_of_kind);

}  // namespace
}  // namespace shampoo::test
