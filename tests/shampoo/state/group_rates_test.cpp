// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

const std::vector<std::vector<std::int64_t>> rated_shapes = {{9, 8}, {13}, {}};

/// A group with rates that all of its parameters have otherwise.
class RatesOfAGroup : public ::testing::Test {
 protected:
  RatesOfAGroup() {
    for (std::size_t j = 0; j < rated_shapes.size(); ++j) {
      group_.set_rate(j, &Rates::learning_rate, 0.125 * static_cast<double>(j));
      group_.set_rate(j, &Rates::beta3, 0);
    }
  }

  /// After a load into a group that has 7.
  double loaded_learning_rate(const StateDict& dict) {
    group_.rates.learning_rate = 7;
    optimizer_.load_state_dict(dict);
    return group_.rates.learning_rate;
  }

  ToyModel<float> model_{rated_shapes};
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> alone_ = single_rank_communicator();
  Optimizer optimizer_{
      *backend_, *alone_, {model_.group(quick_recipe(), {.learning_rate = 0.25, .beta3 = 0.5})}};
  Group& group_ = optimizer_.group(0);
};

TEST_F(RatesOfAGroup, ThatNoParameterHasAreSavedAndLoaded) {
  const TemporaryFolder folder;
  save(optimizer_, folder.path());
  const StateDict dict = optimizer_.full_state_dict();
  for (const bool from_file : {true, false}) {
    ToyModel<float> model(rated_shapes);
    Optimizer other(*backend_, *alone_, {model.group(quick_recipe(), {.learning_rate = 7})});
    from_file ? (void)load(other, folder.path()) : (void)other.load_state_dict(dict);
    EXPECT_EQ(other.group(0).rates, group_.rates);
    EXPECT_TRUE(std::ranges::equal(other.group(0).own_rates(), group_.own_rates()));
  }
}

TEST_F(RatesOfAGroup, GiveWayToThoseThatParametersFollow) {
  StateDict dict = optimizer_.full_state_dict();
  std::erase(dict.parameters[1].own_rates, "learning_rate");
  EXPECT_EQ(loaded_learning_rate(dict), 0.125);
}

TEST_F(RatesOfAGroup, StayWhereParametersComeFromSeveralOrTheStateIsOlder) {
  StateDict dict = optimizer_.full_state_dict();
  dict.parameters[2].group_rates->learning_rate = 0.5;
  EXPECT_EQ(loaded_learning_rate(dict), 7);
  for (ParameterState& parameter : dict.parameters) parameter.group_rates.reset();
  EXPECT_EQ(loaded_learning_rate(dict), 7);
}

TEST_F(RatesOfAGroup, OutOfRangeAreRefusedByParameterWithNothingChanged) {
  StateDict dict = optimizer_.full_state_dict();
  dict.parameters[1].group_rates->learning_rate = -1;
  const std::string refused =
      error_of<std::invalid_argument>([&] { optimizer_.load_state_dict(dict); });
  EXPECT_NE(refused.find("parameter 'tensor1': group 0: learning_rate must be"), std::string::npos)
      << refused;
  EXPECT_EQ(group_.rates.learning_rate, 0.25);
}

}  // namespace
}  // namespace shampoo::test
