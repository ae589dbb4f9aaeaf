// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "shampoo/schedules.h"

namespace shampoo::test {
namespace {

using namespace schedules;

double shrinking(std::int64_t step) { return 1.0 - 1.0 / (static_cast<double>(step) + 2.0); }

/// The cases of make_torch_schedules.py.
const std::map<std::string, Schedule> cases{
    {"constant", Constant{.factor = 0.3, .steps = 7}},
    {"constant_default", Constant{}},
    {"linear", Linear{.start_factor = 1.0 / 3, .end_factor = 0.9, .steps = 11}},
    {"linear_default", Linear{}},
    {"linear_to_zero", Linear{.start_factor = 1, .end_factor = 0, .steps = 13}},
    {"polynomial", Polynomial{.steps = 17}},
    {"polynomial_power", Polynomial{.steps = 29, .power = 2.5}},
    {"inverse_square_root", InverseSquareRoot{.steps = 10}},
    {"exponential", Exponential{.factor = 0.93}},
    {"step", Step{.every = 7, .factor = 0.3}},
    {"milestones", Milestones{.steps = {21, 5, 3, 5}, .factor = 0.7}},
    {"cosine", Cosine{.steps = 40}},
    {"cosine_minimum", Cosine{.steps = 9, .minimum = 1e-5}},
    {"cosine_of_one", Cosine{.steps = 1}},
    {"warm_restarts", WarmRestarts{.first = 7}},
    {"warm_restarts_longer", WarmRestarts{.first = 3, .factor = 2, .minimum = 1e-5}},
    {"one_cycle", OneCycle{.steps = 40}},
    {"one_cycle_linear",
     OneCycle{.steps = 40, .rise = 0.2, .start_divisor = 10, .final_divisor = 7, .linear = true}},
    {"one_cycle_three_phases", OneCycle{.steps = 40, .rise = 0.4, .three_phases = true}},
    {"one_cycle_falls", OneCycle{.steps = 40, .rise = 0}},
    {"function",
     Function{[](std::int64_t step) { return 1.0 / (1.0 + 0.1 * static_cast<double>(step)); }}},
    {"product", Product{shrinking}},
    {"warm_up_stable_decay", WarmUpStableDecay{.warm_up = 8, .stable = 17, .decay = 12}},
    {"warm_up_cosine",
     Sequence{{Linear{.start_factor = 0.02, .steps = 10}, Cosine{.steps = 30, .minimum = 1e-5}},
              {10}}},
    {"stages", Sequence{{Linear{.start_factor = 0.1, .steps = 5}, InverseSquareRoot{5},
                         Constant{0.25, 100}, Polynomial{.steps = 6, .power = 2},
                         Step{.every = 3, .factor = 0.5}, WarmRestarts{.first = 4}},
                        {5, 11, 16, 22, 30}}},
    {"sequence_of_many",
     Sequence{{Constant{.factor = 0.2, .steps = 3}, Exponential{.factor = 0.9},
               WarmRestarts{.first = 4}, Product{shrinking}, Step{.every = 2, .factor = 0.5}},
              {5, 12, 22, 30}}},
    {"chain", Chain{{Linear{.start_factor = 0.25, .steps = 6}, Exponential{.factor = 0.95},
                     Milestones{.steps = {10, 20}, .factor = 0.5}}}},
    {"chain_of_cosine",
     Chain{{Constant{.factor = 0.1, .steps = 5}, Cosine{.steps = 20, .minimum = 1e-6}}}}};

struct TorchCase {
  std::string name;
  double base;
  std::vector<double> values;
};

std::vector<TorchCase> torch_cases() {
  std::ifstream file(SHAMPOO_TORCH_SCHEDULES);
  std::vector<TorchCase> all;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string number;
    TorchCase& read = all.emplace_back();
    words >> read.name >> number;
    read.base = std::strtod(number.c_str(), nullptr);
    while (words >> number) read.values.push_back(std::strtod(number.c_str(), nullptr));
  }
  return all;
}

TEST(TorchSchedules, HaveTheSameBits) {
  const std::vector<TorchCase> all = torch_cases();
  EXPECT_EQ(all.size(), 3 * cases.size());
  for (const TorchCase& theirs : all) {
    ASSERT_TRUE(cases.contains(theirs.name)) << theirs.name;
    ASSERT_EQ(theirs.values.size(), 40u);
    EXPECT_EQ(cases.at(theirs.name).values(theirs.base, 40), theirs.values)
        << theirs.name << " from " << theirs.base;
  }
}

TEST(TorchSchedules, GiveAnyStepByItself) {
  for (const auto& [name, schedule] : cases) {
    const std::vector<double> values = schedule.values(0.3, 40);
    for (const std::int64_t step : {0, 1, 17, 39})
      EXPECT_EQ(schedule.value(0.3, step), values[static_cast<std::size_t>(step)]) << name;
  }
}

}  // namespace
}  // namespace shampoo::test
