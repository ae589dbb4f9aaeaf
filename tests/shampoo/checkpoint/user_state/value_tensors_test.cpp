// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "shampoo/checkpoint.h"
#include "tests/shampoo/toy_model.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {
namespace {

std::vector<std::string> names_of(const std::vector<UserTensor>& tensors) {
  std::vector<std::string> names;
  for (const UserTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

TEST(ValueTensors, HaveEachParameterOnceAlsoOneThatWasThawed) {
  const TemporaryFolder folder;
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = single_rank_communicator();
  ToyModel<float> model({{4, 3}, {5}, {1, 1}});
  ParameterGroup first{.parameters = {model.parameter(0), model.parameter(1)}};
  first.parameters[0].frozen = true;
  Optimizer optimizer(*backend, *ranks, {first});
  optimizer.add_group({.parameters = {model.parameter(2), model.parameter(0)}});
  optimizer.step();

  UserState user{.tensors = value_tensors(optimizer, "model/")};

  EXPECT_EQ(names_of(user.tensors),
            (std::vector<std::string>{"model/tensor0", "model/tensor1", "model/tensor2"}));
  save(optimizer, folder.path(), user);
  const auto trained = model.values();
  optimizer.step();
  ASSERT_NE(model.values(), trained);
  resume(optimizer, folder.path(), user);
  EXPECT_EQ(model.values(), trained);
}

}  // namespace
}  // namespace shampoo::test
