// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tests/bench/scaling_model.h"

namespace shampoo::test {

/// Of one kind of step, in seconds.
struct StepTime {
  double fastest = 0, median = 0;
};

/// Steps of a model on one rank: predicted, and really taken. As rates are those of the fastest
/// try, the prediction is one of the fastest step.
struct Validation {
  std::string model;
  KernelRates rates;
  Forecast predicted;
  StepTime plain, refresh;
};

/// Measures the rates of the CPU with `threads` threads, predicts, and times steps with random
/// gradients. Takes seconds. The interval of the recipe must be at least 2.
Validation validate_prediction(const std::string& name, const Job& job, int threads);

}  // namespace shampoo::test
