// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/fashion/checkpoints.h"
#include "examples/fashion/method.h"
#include "examples/fashion/network/dataset.h"
#include "examples/fashion/progress.h"
#include "examples/fashion/replica.h"
#include "shampoo/distributor/communicator.h"
#include "shampoo/schedules.h"

namespace fashion {

/// What is the same for every optimizer that is compared.
struct Task {
  const Dataset& dataset;
  const Normalisation& normalisation;
  int epochs;
  std::optional<int> steps;  ///< ends earlier; the schedule stays
  int threads;               ///< of each rank
  std::optional<CheckpointPlan> checkpoints = std::nullopt;
  std::filesystem::path trace = {};  ///< folder of traces, one in it per optimizer; empty: none
  std::string schedule = {};         ///< see schedule_named(); empty: the method's own
  std::optional<double> ema = std::nullopt;   ///< decay of an average of the values
  std::optional<double> clip = std::nullopt;  ///< largest norm of all gradients together
  Numerics numerics = {};
};

/// One way to train it.
struct Attempt {
  const Method* method;  ///< one of methods(), or routed_method()
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
  std::vector<double> losses;                 ///< of each step, mean over the batches of all ranks
  std::optional<shampoo::Schedule> schedule;  ///< of the learning rates; absent: the method's own
  std::vector<Epoch> epochs;                  ///< the last one may have been cut short
  int steps_per_epoch;
  double optimizer_seconds;
  double seconds;            ///< all of it
  std::uint64_t checksum;    ///< of the trained parameters
  std::string unsaved = {};  ///< why the last checkpoint is missing; empty: nothing is
};

/// Trains on all ranks together; test images are put in classes by the evaluation values.
/// Collective: `threads` and `progress` may differ, the rest may not. Throws std::invalid_argument
/// for more than 256 ranks, and std::runtime_error when the ranks end with different parameters. A
/// run that goes on from a checkpoint ends with the bits of one that was never interrupted, if it
/// has as many ranks.
Outcome train(shampoo::Communicator& ranks, const Task& task, const Attempt& attempt,
              Progress& progress);

}  // namespace fashion
