// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// The command line of the worker of a local rank: the program itself, or Python where it is a
/// module or ends in .py.
std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank,
                                        const Environment& environment);

/// ${local_rank} and $local_rank replaced, $$ turned into $, all else as it is.
std::string with_local_rank(std::string_view argument, int local_rank);

}  // namespace shampoo::launcher
