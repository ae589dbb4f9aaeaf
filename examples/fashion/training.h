// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "examples/fashion/dataset.h"
#include "examples/fashion/method.h"
#include "examples/fashion/progress.h"

namespace fashion {

/// What is the same for every optimizer that is compared.
struct Task {
  const Dataset& dataset;
  const Normalisation& normalisation;
  int epochs;
  std::optional<int> steps;  ///< ends earlier; the schedule stays
  int threads;
};

/// One way to train it.
struct Attempt {
  Method method;
  Preconditioning preconditioning;
  double rate;         ///< peak learning rate
  std::uint64_t seed;  ///< of the first weights and of the order of the images
};

struct Epoch {
  double loss;      ///< mean over the epoch's batches, each before its step
  double accuracy;  ///< on the test images after the epoch, in percent
};

struct Outcome {
  Attempt attempt;
  std::vector<double> losses;  ///< of each step
  std::vector<Epoch> epochs;   ///< the last one may have been cut short
  int steps_per_epoch;
  double optimizer_seconds;
  double seconds;  ///< all of it
};

Outcome train(const Task& task, const Attempt& attempt, Progress& progress);

}  // namespace fashion
