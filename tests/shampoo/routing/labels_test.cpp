// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/toy_model.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

class Labels : public ::testing::Test {
 protected:
  std::vector<ParameterGroup> labelled(const std::vector<std::string>& labels) {
    std::vector<ParameterGroup> groups = model_.groups(quick_recipe(), {});
    for (std::size_t g = 0; g < labels.size(); ++g) groups[g].label = labels[g];
    return groups;
  }

  ToyModel<float> model_{{{9, 8}, {13}, {5}, {7}}};
  std::unique_ptr<Backend> backend_ = cpu_backend();
  std::unique_ptr<Communicator> alone_ = single_rank_communicator();
};

TEST_F(Labels, AreUniqueKeysForLogs) {
  Optimizer optimizer(*backend_, *alone_, labelled({"group 3", "same", "same"}));
  ToyModel<float> more({{4, 4}});
  more.tensors[0].name = "later";
  ParameterGroup later = more.group(quick_recipe());
  later.label = "same";
  optimizer.add_group(later);

  std::vector<std::string> labels;
  for (int g = 0; g < optimizer.group_count(); ++g) labels.push_back(optimizer.group(g).label());
  EXPECT_EQ(labels, (std::vector<std::string>{"group 3", "same", "same 2", "group 3 2", "same 3"}));
}

TEST_F(Labels, AreInErrors) {
  std::vector<ParameterGroup> groups = labelled({"", "vectors"});
  Optimizer optimizer(*backend_, *alone_, groups);
  optimizer.group(1).rates.beta2 = 7;
  EXPECT_EQ(error_of<std::invalid_argument>([&] { optimizer.step(); }),
            "group 1 'vectors': beta2 must be in [0, 1], got 7");
  EXPECT_EQ(error_of<std::out_of_range>([&] { optimizer.group(1).set_gradient(3, nullptr); }),
            "group 1 'vectors': there is no parameter 3 (it has 1, counted from 0)");
  groups[1].parameters[0].shape = {-1};
  const std::string refused =
      error_of<std::invalid_argument>([&] { Optimizer other(*backend_, *alone_, groups); });
  EXPECT_TRUE(refused.starts_with("group 1 'vectors', parameter 'tensor1': shape")) << refused;
}

TEST_F(Labels, AndRatesAreInTheDescription) {
  std::vector<ParameterGroup> groups = labelled({"matrices", "vectors"});
  groups[1].rates.learning_rate = 0.125;
  groups[2].parameters[0].frozen = true;
  Optimizer optimizer(*backend_, *alone_, groups);
  optimizer.group(0).set_rate("tensor0", &Rates::weight_decay, 0.375);

  const std::string text = optimizer.describe();

  for (const char* part :
       {"matrices: 1 parameter, learning_rate 0.001, beta1 0.9, beta2 0.999",
        "tensor0 weight_decay 0.375", "vectors: 1 parameter, learning_rate 0.125",
        "group 3: 1 parameter", "frozen: tensor2"})
    EXPECT_NE(text.find(part), std::string::npos) << part << " is missing in\n" << text;
  EXPECT_EQ(text.find("train_interpolation 0.8"), std::string::npos) << "it is not read";
}

TEST(Names, AreInventedForCallersWithoutNames) {
  ToyModel<float> model({{2, 3}, {4}, {5}});
  std::vector<ParameterGroup> groups = {model.group(quick_recipe()), {}};
  groups[1].parameters = {groups[0].parameters.back()};
  groups[0].parameters.pop_back();
  for (ParameterGroup& group : groups)
    for (Parameter& parameter : group.parameters) parameter.name.clear();
  name_parameters(groups);
  EXPECT_EQ(groups[0].parameters[1].name, "g0.p1");
  EXPECT_EQ(groups[1].parameters[0].name, "g1.p0");

  name_parameters(groups);  // all have one
  EXPECT_EQ(groups[1].parameters[0].name, "g1.p0");
  groups[0].parameters[0].name.clear();
  EXPECT_EQ(error_of<std::invalid_argument>([&] { name_parameters(groups); }),
            "parameters: all must have a name or none, got 2 of 3");
}

}  // namespace
}  // namespace shampoo::test
