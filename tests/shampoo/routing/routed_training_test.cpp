// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "tests/shampoo/toy_model.h"
#include "tests/support/counting_backend.h"
#include "tests/support/cpu_kernels.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

TEST(RoutedTraining, TheOptimizerRefusesAGroupThatDoesNotGiveIt) {
  const auto backend = cpu_backend();
  const auto alone = single_rank_communicator();
  ToyModel<float> model({{2, 3}});
  ParameterGroup group = model.group(quick_recipe());
  group.parameters[0].recipe = recipes::adamw();
  const std::string refused =
      error_of<std::invalid_argument>([&] { Optimizer optimizer(*backend, *alone, {group}); });
  EXPECT_TRUE(
      refused.starts_with("group 0, parameter 'tensor0': recipe: the parameter asks for "
                          "another than its group's: preconditioner adam, the group has "
                          "root_inverse"))
      << refused;
  group.recipe = recipes::adamw();
  EXPECT_NO_THROW(Optimizer(*backend, *alone, {group}));
}

TEST(RoutedTraining, TrainsEachParameterByItsRule) {
  const auto backend = cpu_backend();
  const auto alone = single_rank_communicator();
  std::vector<float> values = {2, 3, 4}, gradients = {1, 1, 1};
  std::vector<Parameter> parameters;
  for (const std::size_t p : {0, 1, 2})
    parameters.push_back({.name = std::string(1, static_cast<char>('a' + p)),
                          .shape = {1},
                          .value = &values[p],
                          .gradient = &gradients[p]});
  Routes routes;
  routes.add({.names = {"a"}}, {.recipe = recipes::sgd(), .rates = {.learning_rate = 0.1}});
  routes.add({.names = {"b"}}, {.recipe = recipes::sgd(), .rates = {.learning_rate = 1}});
  routes.otherwise({.recipe = recipes::sgd(), .rates = {.learning_rate = 0}});
  Optimizer optimizer(*backend, *alone, routes.groups(parameters));

  optimizer.step();

  EXPECT_EQ(values, (std::vector<float>{1.9F, 2, 4}));
}

/// Equal routes of many rules are one call of each kernel.
TEST(RoutedTraining, FusesWhatIsEqual) {
  const auto launches = [](bool fresh) {
    const auto inner = cpu_kernels();
    CountingBackend backend(*inner);
    const auto alone = single_rank_communicator();
    ToyModel<float> model({{9, 8}, {9, 8}, {9, 8}, {9, 8}});
    Routes routes;
    if (fresh)
      routes.choose({.pattern = ".*"}, [](const Parameter& parameter) {
        return Route{.recipe = quick_recipe(),
                     .rates = {.learning_rate = 1e-3 * parameter.name.back()},
                     .label = parameter.name};
      });
    else
      routes.otherwise({.recipe = quick_recipe()});
    Optimizer optimizer(backend, *alone, routes.groups(model.group().parameters));
    EXPECT_EQ(optimizer.group_count(), fresh ? 4 : 1);
    optimizer.step();
    return backend.launches();
  };
  EXPECT_EQ(launches(true), launches(false));
}

TEST(RoutedTraining, StepsOneRecipeWhileAllGradientsOfAnotherAreAbsent) {
  const auto backend = cpu_backend();
  const auto alone = single_rank_communicator();
  ToyModel<float> model({{9, 8}, {13}, {7}});
  Routes routes;
  routes.add({.orders = {1}}, {.recipe = recipes::adamw()});
  routes.otherwise({.recipe = quick_recipe()});
  Optimizer optimizer(*backend, *alone, routes.groups(model.group().parameters));
  optimizer.step();
  const auto before = model.values();
  Group& vectors = optimizer.group(0);
  for (std::size_t j = 0; j < 2; ++j) vectors.set_gradient(j, nullptr);

  EXPECT_EQ(optimizer.step().absent_gradients(), 2);

  EXPECT_EQ(optimizer.steps("tensor0"), 2);
  EXPECT_EQ(optimizer.steps("tensor1"), 1);
  EXPECT_NE(model.values()[0], before[0]);
  EXPECT_EQ(model.values()[1], before[1]);
  EXPECT_EQ(model.values()[2], before[2]);
}

}  // namespace
}  // namespace shampoo::test
