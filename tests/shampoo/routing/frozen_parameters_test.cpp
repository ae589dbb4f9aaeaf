// SPDX-License-Identifier: Apache-2.0
// Parameters that are frozen and thawed, and optimizers that start without a group.
#include <gtest/gtest.h>

#include <cmath>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_communicator.h"
#include "tests/support/device/ranks_at.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

const std::vector<std::vector<std::int64_t>> frozen_shapes = {{9, 8}, {20, 3}, {13}, {3, 4, 5}};

/// All tensors in one group, the second frozen.
template <typename Scalar>
ParameterGroup second_frozen(ToyModel<Scalar>& model) {
  ParameterGroup group = model.group(quick_recipe());
  group.parameters[1].frozen = true;
  return group;
}

class FrozenParameters : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override { require_ranks(GetParam()); }
};

TEST_P(FrozenParameters, HaveNoStateAndSendNothingAndKeepTheirValue) {
  for (const int count : {1, 3})
    run_ranks_at(GetParam(), count, [&](Communicator& ranks, kernels::Backend& backend) {
      ToyModel<float> model(frozen_shapes, 1, &backend), without(frozen_shapes, 1, &backend);
      ParameterGroup rest = without.group(quick_recipe());
      rest.parameters.erase(rest.parameters.begin() + 1);
      CountingCommunicator counted(ranks), counted_without(ranks);
      Optimizer optimizer(backend, counted, {second_frozen(model)});
      Optimizer other(backend, counted_without, {rest});
      const std::int64_t before = counted.gathered_bytes(),
                         before_without = counted_without.gathered_bytes();
      for (int step = 0; step < 4; ++step) {
        optimizer.step();
        other.step();
      }
      const auto values = model.values();
      EXPECT_EQ(values[1], ToyModel<float>(frozen_shapes).values()[1]);
      for (const std::size_t t : {0, 2, 3}) EXPECT_EQ(values[t], without.values()[t]);
      EXPECT_EQ(optimizer.state_bytes(), other.state_bytes());
      EXPECT_EQ(counted.gathered_bytes() - before,
                counted_without.gathered_bytes() - before_without);
      EXPECT_EQ(optimizer.steps("tensor1"), 0);
      EXPECT_EQ(optimizer.block_count("tensor1"), 0);
      EXPECT_EQ(optimizer.latest_result().absent_gradients(), 0);
    });
}

TEST_P(FrozenParameters, AreThawedByAddGroupWithTheSameBitsOnAnyNumberOfRanks) {
  const auto train = [&](int count, bool thaws) {
    std::vector<std::vector<float>> values;
    run_ranks_at(GetParam(), count, [&](Communicator& ranks, kernels::Backend& backend) {
      ToyModel<float> model(frozen_shapes, 1, &backend);
      ParameterGroup all = second_frozen(model), later{.recipe = quick_recipe()};
      later.parameters = {model.parameter(1)};
      if (!thaws) all.parameters.erase(all.parameters.begin() + 1);
      Optimizer optimizer(backend, ranks, {all});
      optimizer.step();
      optimizer.step();
      optimizer.add_group(later);
      EXPECT_EQ(optimizer.steps("tensor1"), 0);
      EXPECT_GT(optimizer.block_count("tensor1"), 0);
      for (int step = 0; step < 3; ++step) optimizer.step();
      EXPECT_EQ(optimizer.steps("tensor1"), 3);
      EXPECT_EQ(optimizer.steps("tensor0"), 5);
      auto own = model.values();
      if (ranks.rank() == 0) values = std::move(own);
    });
    return values;
  };
  const auto expected = train(1, false);
  EXPECT_NE(expected[1], ToyModel<float>(frozen_shapes).values()[1]);
  EXPECT_EQ(train(1, true), expected);
  EXPECT_EQ(train(3, true), expected);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, FrozenParameters, ::testing::ValuesIn(all_places),
                         [](const auto& tested) { return name_of(tested.param); });

class FrozenHere : public ::testing::Test {
 protected:
  ToyModel<float> model_{frozen_shapes};
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> alone_ = single_rank_communicator();
};

TEST_F(FrozenHere, GradientsAreSeenButNotUsed) {
  Optimizer optimizer(*backend_, *alone_, {second_frozen(model_)});
  const double with = optimizer.step().gradient_norm();
  double expected = 0;
  for (const auto& tensor : model_.tensors)
    for (const float g : tensor.gradient) expected += static_cast<double>(g) * g;
  EXPECT_NEAR(with, std::sqrt(expected), 1e-12 * std::sqrt(expected));

  model_.tensors[1].gradient[5] = std::nanf("");
  EXPECT_FALSE(optimizer.step().applied());
  EXPECT_EQ(optimizer.latest_result().non_finite_gradient(), "tensor1");
  optimizer.group(0).set_gradient("tensor1", Tensor());
  EXPECT_TRUE(optimizer.step().applied());
  EXPECT_LT(optimizer.latest_result().gradient_norm(), with);
}

TEST_F(FrozenHere, AreNotInCheckpoints) {
  const TemporaryFolder folder;
  Optimizer optimizer(*backend_, *alone_, {second_frozen(model_)});
  optimizer.step();
  save(optimizer, folder.path());
  const StateDict dict = optimizer.full_state_dict();
  EXPECT_EQ(dict.parameters.size(), 3u);

  ToyModel<float> again(frozen_shapes);
  Optimizer other(*backend_, *alone_, {second_frozen(again)});
  EXPECT_TRUE(load(other, folder.path()).state.missing.empty());
  EXPECT_EQ(other.full_state_dict(), dict);
  EXPECT_TRUE(other.load_state_dict(dict).frozen.empty());
  ParameterGroup thawed{.recipe = quick_recipe()};
  thawed.parameters = {again.parameter(1)};
  other.add_group(thawed);
  other.step();
  EXPECT_EQ(other.full_state_dict().parameters.size(), 4u);
}

TEST_F(FrozenHere, AreInTheReportOfALoadThatLeavesTheirStateOut) {
  const TemporaryFolder folder;
  ParameterGroup trained = second_frozen(model_);
  trained.parameters[1].frozen = false;
  Optimizer optimizer(*backend_, *alone_, {trained});
  optimizer.step();
  save(optimizer, folder.path());

  ToyModel<float> again(frozen_shapes);
  Optimizer other(*backend_, *alone_, {second_frozen(again)});
  const LoadReport report = load(other, folder.path()).state;
  EXPECT_EQ(report.frozen, std::vector<std::string>{"tensor1"});
  EXPECT_TRUE(report.unexpected.empty());
  EXPECT_EQ(other.full_state_dict().parameters.size(), 3u);
}

TEST_F(FrozenHere, OccurOnceAndAreNotThawedTwice) {
  ParameterGroup more{.recipe = quick_recipe()};
  more.parameters = {model_.parameter(1)};
  Optimizer optimizer(*backend_, *alone_, {second_frozen(model_)});
  const auto refused = [&](const ParameterGroup& group) {
    return error_of<std::invalid_argument>([&] { optimizer.add_group(group); });
  };
  ParameterGroup other_shape = more;
  other_shape.parameters[0].shape = {3, 20};
  EXPECT_NE(refused(other_shape).find("'tensor1': shape: must be that of the parameter that thaws"),
            std::string::npos);
  ParameterGroup frozen = more;
  frozen.parameters[0].frozen = true;
  EXPECT_NE(refused(frozen).find("'tensor1': name: must be unique"), std::string::npos);
  optimizer.add_group(more);
  EXPECT_NE(refused(more).find("'tensor1': name: must be unique"), std::string::npos);
  EXPECT_NE(refused(frozen).find("'tensor1': name: must be unique"), std::string::npos);
  EXPECT_EQ(optimizer.group_count(), 2);
}

TEST(AnOptimizerThatStartsEmpty, TrainsTheGroupsThatAreAddedWithTheSameBits) {
  const auto train = [&](int count, bool empty) {
    std::vector<std::vector<float>> values;
    run_ranks(count, [&](Communicator& ranks) {
      ToyModel<float> model(frozen_shapes);
      const auto backend = cpu_backend({.threads = 1});
      Optimizer optimizer(
          *backend, ranks,
          empty ? std::vector<ParameterGroup>() : std::vector{model.group(quick_recipe())},
          {.starts_empty = empty});
      if (empty) {
        EXPECT_NE(error_of<std::logic_error>([&] { optimizer.step(); }).find("add_group()"),
                  std::string::npos);
        EXPECT_EQ(optimizer.group_count(), 0);
        EXPECT_EQ(optimizer.state_bytes(), 0);
        const StateDict nothing = optimizer.full_state_dict();
        EXPECT_TRUE(nothing.parameters.empty());
        EXPECT_NO_THROW(optimizer.load_state_dict(nothing));
        EXPECT_FALSE(optimizer.describe().empty());
        optimizer.add_groups(model.groups(quick_recipe(), {}));
        optimizer.add_groups({});
        EXPECT_EQ(optimizer.group_count(), std::ssize(frozen_shapes));
      }
      for (int step = 0; step < 4; ++step) optimizer.step();
      if (ranks.rank() == 0) values = model.values();
    });
    return values;
  };
  const auto expected = train(1, false);
  EXPECT_NE(expected, ToyModel<float>(frozen_shapes).values());
  EXPECT_EQ(train(1, true), expected);
  EXPECT_EQ(train(3, true), expected);
}

TEST(AnOptimizerWithoutGroups, IsRefusedUnlessItIsMeantToStartEmpty) {
  const auto backend = cpu_backend();
  const auto alone = single_rank_communicator();
  const std::string refused =
      error_of<std::invalid_argument>([&] { Optimizer optimizer(*backend, *alone, {}); });
  EXPECT_NE(refused.find("groups: must have at least one entry"), std::string::npos) << refused;
  EXPECT_NE(refused.find("starts_empty"), std::string::npos) << refused;
}

}  // namespace
}  // namespace shampoo::test
