// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "examples/gpt2_slab/layout.h"

namespace gpt2_slab {

struct Options {
  std::string backend = "cpu";
  Size size{.layers = 2, .width = 128, .vocabulary = 1024, .context = 64};
  int steps = 60;
  double learning_rate = 1e-3;
  double layer_decay = 0.9;  ///< rate of a layer over that of the next one
  double noise = 0.01;
  std::string checkpoints;  ///< folder; none if empty
  int every = 10;           ///< steps from one checkpoint to the next
};

/// Reads the command line. Empty after --help, which it prints.
/// Throws std::invalid_argument with one sentence when it cannot be understood.
std::optional<Options> read_options(int argc, const char* const* argv);

}  // namespace gpt2_slab
