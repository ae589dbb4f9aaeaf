// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "shampoo/gradients/gradient_average.h"
#include "shampoo/optimizer.h"
#include "shampoo/protocol/step_protocol.h"
#include "shampoo/schedules/scheduled_rates.h"
#include "shampoo/state/checkpoint_lineage.h"
#include "shampoo/update/engine.h"
#include "shampoo/validation/rate_ranges.h"
#include "shampoo/validation/validate_parameters.h"

namespace shampoo {

/// Implementation of Optimizer.
struct Optimizer::Parts {
  Parts(kernels::Backend& b, Communicator& c, const OptimizerOptions& o)
      : backend(b), communicator(c), options(o), protocol(b, c, o) {}
  Parts(const Parts&) = delete;

  void add(std::vector<ParameterGroup> added);
  std::vector<std::unique_ptr<Group>> make_groups(std::vector<ParameterGroup> added,
                                                  ValueMemory& all_values) const;
  /// call(hooks) of the first `count` that still live.
  template <typename Call>
  void for_each_hooks(std::size_t count, const Call& call) {
    in_hook = true;
    try {
      for (std::size_t h = 0; h < count; ++h)
        if (const auto living = hooks[h].lock()) call(*living);
    } catch (...) {
      in_hook = false;
      throw;
    }
    in_hook = false;
  }
  void check_rates() const {
    for (std::size_t g = 0; g < groups.size(); ++g) ranges[g].check(*groups[g]);
  }

  kernels::Backend& backend;
  Communicator& communicator;
  OptimizerOptions options;
  ValueMemory values;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<RateRanges> ranges;  ///< per group
  ScheduledRates schedules;
  std::vector<std::weak_ptr<const StepHooks>> hooks;
  std::size_t hooks_of_step = 0;  ///< hooks when the step was prepared
  bool in_hook = false;
  std::unique_ptr<TraceFile> trace;  ///< null: none
  std::unique_ptr<Engine> engine;
  StepProtocol protocol;
  CheckpointLineage lineage;
  GradientAverage average;
  /// Called at the end of an Evaluation, as long as this object exists.
  std::shared_ptr<const std::function<void(bool)>> end_evaluation =
      std::make_shared<const std::function<void(bool)>>(
          [this](bool unwinding) { protocol.end_evaluation(*engine, unwinding); });
};

}  // namespace shampoo
