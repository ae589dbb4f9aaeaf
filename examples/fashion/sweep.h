// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "examples/fashion/options.h"
#include "examples/fashion/table.h"
#include "examples/fashion/training.h"

namespace fashion {

/// What was trained, in the order of the training.
struct Comparison {
  std::vector<Result> results;  ///< of each method and rate
  std::vector<Outcome> curves;  ///< of each method: the first seed at its best rate
  std::uint64_t checksum = 0;   ///< of the last run
};

/// Trains with every method of the options, which must outlive the result: once, or with --sweep at
/// three rates with three seeds each; the best rate is the one with the lowest loss in the last
/// epoch. Collective; throws like train().
Comparison compare(shampoo::Communicator& ranks, const Task& task, const Options& options,
                   Progress& progress);

}  // namespace fashion
