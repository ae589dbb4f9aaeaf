// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

#include "examples/fashion/training.h"

namespace fashion {

/// One row of the table: the mean over runs that differ in their seed.
struct Result {
  /// At least one run, all of the same number of epochs.
  explicit Result(std::span<const Outcome> runs);

  const Method& method;
  double rate;
  std::vector<double> losses;  ///< of each epoch
  double accuracy = 0;         ///< after the last epoch, in percent
  double optimizer_seconds = 0, seconds = 0;
};

/// A line for each result: learning rate, losses of up to six epochs, accuracy, seconds.
std::string results_table(std::span<const Result> results);

}  // namespace fashion
