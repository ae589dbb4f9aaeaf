// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "examples/gpt/training.h"

namespace gpt {

struct Options {
  std::filesystem::path text;
  std::vector<std::string> methods = {"shampoo", "soap", "muon", "adamw"};
  std::vector<double> rates;  ///< each method is trained at all of them; its own if empty
  int seed = 1, seeds = 1;    ///< the first, and how many from it on
  Settings settings = {};
  Task task = {};
  std::optional<int> threads;
  std::string backend = "cpu";
  bool describe = false;         ///< prints Optimizer::describe() of each run
  std::optional<double> target;  ///< loss whose step the table gives; AdamW's best unless set
  std::filesystem::path output = "gpt.png";
};

/// Reads the command line. Empty after --help, which it prints.
/// Throws std::invalid_argument with one sentence when it cannot be understood.
std::optional<Options> read_options(int argc, const char* const* argv);

}  // namespace gpt
