// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "shampoo/group.h"
#include "tests/support/named_recipes.h"

namespace shampoo::test {

/// The command line of step_benchmark.
struct StepOptions {
  std::string model = "small";
  int groups = 1;
  int frequency = 10;
  int threads = 0;
  int steps = 0;
  std::int64_t block = 0;
  std::optional<std::int64_t> direction_bytes = {};  ///< see OptimizerOptions
  int ranks = 1;
  std::string communicator = "threads";
  std::string backend = "cpu";
  std::string type = "float32";
  std::string recipe = "shampoo";
  std::string solver = "automatic";
  bool staggered = false;
  bool json = false;
  bool roofline = false;
  bool phases = false;
  std::string predict;
};

/// Options of the command line, with what they mean.
void add_options(CLI::App& app, StepOptions& options);

NamedRecipe recipe_of(const StepOptions& options);
OptimizerOptions optimizer_options(const StepOptions& options);
/// Of values and gradients.
Type type_of(const StepOptions& options);

}  // namespace shampoo::test
