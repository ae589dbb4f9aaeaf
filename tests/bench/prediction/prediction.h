// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/bench/prediction/device_model.h"
#include "tests/bench/prediction/planned_device.h"
#include "tests/support/models.h"
#include "tests/support/named_recipes.h"

namespace shampoo::test {

/// All launches of one kernel in one phase of a step.
struct PredictedLine {
  std::string range, kernel;
  std::int64_t launches = 0, blocks = 0;
  KernelCost cost;
  Unit unit = Unit::none;
  double ms = 0;
  std::string assumption;  ///< empty: none, so that only launches count
};

/// What one device takes for the last of some steps.
struct PredictedStep {
  std::vector<PredictedLine> lines;  ///< in the order of their first launches

  double ms() const;
  std::int64_t launches() const;
  bool is_complete() const;  ///< every line has an assumption
};

/// Of one rank whose launches these are. A line takes
///   max(bytes / bandwidth, flops / rate) / share + launches * latency,
/// at least what its thread blocks take to start.
PredictedStep predicted_step(const std::vector<Launch>& launches, const DeviceModel& machine);

/// The launches of every step from the first one on, of one rank that trains all tensors in one
/// group, with the type of values and gradients. Spectral leaves out vectors and scalars.
std::vector<std::vector<Launch>> planned_steps(const Model& model, const NamedRecipe& recipe,
                                               Type type, int steps);

}  // namespace shampoo::test
