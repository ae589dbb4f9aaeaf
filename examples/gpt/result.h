// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "examples/gpt/training.h"

namespace gpt {

/// Means over the runs of one method and rate, which differ in their seeds.
struct Result {
  explicit Result(std::span<const Outcome> runs);

  double loss() const { return curve.back().loss; }
  /// Step and seconds at which the mean curve first is at most `loss`, between two readings on a
  /// straight line; empty if it never is.
  std::optional<Reading> reaches(double loss) const;

  const Method* method;
  double rate;
  std::vector<Reading> curve;
  double bytes_per_parameter;
};

/// The lowest loss of AdamW, of the first result if there is no AdamW.
double baseline(std::span<const Result> results);

/// A line for each result: steps and seconds to the loss `target`, milliseconds of a step and of
/// the optimizer in it, bytes of state and workspace.
std::string results_table(std::span<const Result> results, double target);

}  // namespace gpt
