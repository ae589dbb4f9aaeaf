// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/fashion/checkpoints.h"
#include "examples/fashion/method.h"
#include "examples/fashion/replica.h"

namespace fashion {

/// What the command line asks for.
struct Options {
  std::filesystem::path data;
  std::filesystem::path output = "fashion.png";
  std::vector<std::string> methods;  ///< keys
  std::optional<Method> routed;      ///< in place of the methods
  int epochs = 5;
  std::optional<int> steps;
  std::uint64_t seed = 1;
  std::optional<int> threads;  ///< of each rank
  Preconditioning preconditioning{.block = 256, .refresh = 10};
  std::optional<double> rate;  ///< peak learning rate, in place of each method's own
  bool sweep = false;
  bool group_rates = false;  ///< compare_group_rates() of the first method, in place of a training
  std::optional<CheckpointPlan> checkpoints;
  std::filesystem::path trace;  ///< empty: none
  std::string schedule;         ///< name; empty: the method's own
  std::optional<double> ema;    ///< decay of an average of the values
  std::optional<double> clip;   ///< largest norm of all gradients together
  Numerics numerics;
};

/// Reads the command line. Empty after --help, which it prints.
/// Throws std::invalid_argument with one sentence when it cannot be understood.
std::optional<Options> read_options(int argc, const char* const* argv);

}  // namespace fashion
