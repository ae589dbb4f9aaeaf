// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "examples/fashion/training.h"

namespace fashion {

/// What trains groups that differ in their learning rates alone.
enum class Grouping : std::uint8_t {
  merged,    ///< one optimizer, which merges them into one virtual group
  unmerged,  ///< one optimizer with a virtual group for each
  apart      ///< an optimizer for each, with a distributor and an all-gather of its own
};

/// A training of so many ranks. Numbers of a step are those of rank 0, means over all steps.
struct GroupRatesRun {
  Grouping grouping;
  int ranks;
  int optimizers;
  double launches;     ///< of kernels, BLAS and LAPACK, and copies
  double collectives;  ///< of the optimizers
  double bytes;        ///< received by all ranks from others
  double milliseconds;
  double window_loss;    ///< mean of the last 100 steps
  double lifetime_loss;  ///< of all steps
  std::uint64_t checksum;
};

/// Trains in every grouping on 1 and on 2 ranks, threads of this process, with every tensor in a
/// group of its own: the g-th of n has g / n of its method's learning rate. Roots are refreshed at
/// once, as staggered turns depend on what else an optimizer has. Threads are divided among ranks.
/// Throws std::runtime_error where a loss or a parameter has other bits than merged groups on as
/// many ranks.
std::vector<GroupRatesRun> compare_group_rates(const Task& task, Attempt attempt,
                                               Progress& progress);

/// A line for each run.
std::string group_rates_table(std::span<const GroupRatesRun> runs);

}  // namespace fashion
