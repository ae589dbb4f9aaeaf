// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <vector>

#include "tests/shampoo/protocol/device_job.h"

/// Captured steps of a device job.
namespace shampoo::test {

using Graph = JobDevice::Graph;

/// With steps that refresh nothing, which alone can be captured with such a solver.
inline Recipe captured_recipe(const Solver& solver = Eigen{}) {
  Recipe recipe = quick_recipe();
  recipe.refresh.staggered = false;
  recipe.preconditioner = RootInverse{.solver = solver};
  recipe.averaging = Momentum{};
  return recipe;
}

template <typename Job>
Graph capture(Job& job) {
  job.device.begin_capture();
  try {
    job.optimizer->enqueue_step();
  } catch (...) {
    job.device.end_capture();
    throw;
  }
  return job.device.end_capture();
}

/// Changes to a run before its `step`-th step: other rates, gradients that appear and disappear,
/// one that is not finite.
inline void disturb(DeviceJob& job, int step) {
  job.model.new_gradients();
  if (step == 7 || step == 8) job.model.tensors[3].gradient[2] = -std::nanf("");
  job.model.send_gradients();
  job.optimizer->group(0).rates.learning_rate = 1e-3 * (step + 1);
  job.optimizer->group(1).rates.beta2 = 0.9 + 0.003 * step;
  job.optimizer->group(0).set_rate(1, &Rates::weight_decay, 0.01 * step);
  job.set_present(4, step % 3 != 0);
  job.set_present(9, step % 5 != 0);
}

}  // namespace shampoo::test
