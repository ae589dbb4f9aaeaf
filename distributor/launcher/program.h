// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// There is no such program, or it may not be run. One line; exit code 1.
class MissingProgram : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Program {
  std::string path;                    ///< to execute; has a slash
  std::vector<std::string> arguments;  ///< the first is the program's name
};

/// What the worker of a local rank executes: the program itself, or Python where it is a module or
/// ends in .py. Throws MissingProgram.
Program worker_program(const LaunchOptions& options, int local_rank,
                       const Environment& environment);

/// ${local_rank} and $local_rank replaced, $$ turned into $, all else as it is.
std::string with_local_rank(std::string_view argument, int local_rank);

}  // namespace shampoo::launcher
