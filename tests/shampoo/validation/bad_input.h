// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/shampoo/toy_model.h"

namespace shampoo::test {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double infinity = std::numeric_limits<double>::infinity();

class BadInput : public ::testing::Test {
 protected:
  /// Builds an optimizer of two groups, of which the second was spoilt, and expects a message that
  /// contains all `words`.
  void expect_refused(const std::function<void(ParameterGroup&)>& spoil,
                      const std::vector<std::string>& words) {
    ToyModel<float> model({{4, 3}, {5}, {6}});
    std::vector<ParameterGroup> groups(2);
    groups[0].parameters.push_back(model.parameter(0));
    groups[1].parameters = {model.parameter(1), model.parameter(2)};
    spoil(groups[1]);
    const auto before = model.values();
    try {
      const Optimizer optimizer(*backend, *ranks, groups);
      ADD_FAILURE() << "accepted what should be refused with " << words.front();
    } catch (const std::invalid_argument& error) {
      for (const std::string& word : words)
        EXPECT_NE(std::string(error.what()).find(word), std::string::npos)
            << "'" << word << "' is missing in: " << error.what();
    }
    EXPECT_EQ(model.values(), before);
  }

  void expect_rate_refused(double Rates::*rate, const std::string& name,
                           const std::vector<double>& values) {
    for (const double value : values) {
      expect_refused([&](ParameterGroup& group) { group.rates.*rate = value; },
                     {"group 1", name, "must be"});
      expect_live_rate_refused(rate, name, value);
    }
  }

  /// The same rate, turned bad between two steps.
  void expect_live_rate_refused(double Rates::*rate, const std::string& name, double value) {
    ToyModel<float> model({{4, 3}});
    Optimizer optimizer(*backend, *ranks, {model.group()});
    optimizer.step();
    const auto before = model.values();
    const double good = std::exchange(optimizer.group(0).rates.*rate, value);
    try {
      optimizer.step();
      ADD_FAILURE() << name << " = " << value << " was accepted";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    EXPECT_EQ(model.values(), before);
    optimizer.group(0).rates.*rate = good;
    EXPECT_TRUE(optimizer.step().applied());
    EXPECT_EQ(optimizer.steps("tensor0"), 2);
  }

  void expect_recipe_refused(const std::function<void(Recipe&)>& spoil, const std::string& name) {
    expect_refused([&](ParameterGroup& group) { spoil(group.recipe); },
                   {"group 1", name, "must be"});
  }

  std::unique_ptr<Backend> backend = cpu_backend();
  std::unique_ptr<Communicator> ranks = single_rank_communicator();
};

}  // namespace shampoo::test
