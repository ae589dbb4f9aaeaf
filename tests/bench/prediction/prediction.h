// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shampoo/group.h"
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

/// What one rank plans that trains all tensors in one group.
struct PlannedRun {
  std::vector<std::vector<Launch>> steps;  ///< launches of each, from the first one on
  std::int64_t state_bytes = 0;
  std::int64_t workspace_bytes = 0;  ///< with the backend's scratch memory
};

/// `type`: of values and gradients. Spectral leaves out vectors and scalars.
PlannedRun planned_run(const Model& model, const NamedRecipe& recipe, Type type, int steps,
                       const OptimizerOptions& options = {});

}  // namespace shampoo::test
