// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "tests/bench/prediction/device_floor.h"
#include "tests/bench/prediction/prediction.h"

namespace shampoo::test {

/// What is predicted.
struct PredictionQuery {
  DeviceModel machine;
  Model model;
  NamedRecipe recipe;
  Type type = Type::float32;
  std::int64_t block = 0;
  int frequency = 10;
  OptimizerOptions options = {};
};

/// A plain step and one that refreshes, each with its lines, the sums of its phases and, of
/// root-inverse Shampoo, its floor; and memory.
nlohmann::ordered_json prediction_of(const PredictionQuery& query);

/// One line of JSON, or a table in Markdown for each step.
void print_prediction(const nlohmann::ordered_json& prediction, bool json);

}  // namespace shampoo::test
