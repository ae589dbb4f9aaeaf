// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/nodes/messages.h"
#include "distributor/system/environment.h"

namespace shampoo::launcher {

/// A worker's place in the job, which may change from one attempt to the next.
struct WorkerRanks {
  int local_rank = 0, local_world_size = 1;
  int rank = 0, world_size = 1;
  int group_rank = 0, group_world_size = 1;  ///< rank of the node, and the number of nodes
  int role_rank = 0, role_world_size = 1;
};

/// The ranks of the workers of a node, one of `order.members`.
std::vector<WorkerRanks> ranks_of(const Order& order, int node);

/// One worker in one attempt.
struct WorkerStart {
  WorkerRanks ranks;
  std::string store_host;
  std::uint16_t store_port = 0;
  int attempt = 0;  ///< how often the job was restarted; equal on all nodes
  std::string error_file;
};

/// All variables of one worker: torchrun's, SHAMPOORUN_VERSION, and those inherited.
Environment worker_environment(const LaunchOptions& options, const WorkerStart& start,
                               const Environment& inherited);

/// True if worker_environment() sets OMP_NUM_THREADS to 1, which is worth a warning.
bool limits_threads(const LaunchOptions& options, const Environment& inherited);

/// The command line of the worker of a local rank: the program itself, or Python where it is a
/// module or ends in .py.
std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank,
                                        const Environment& environment);

/// ${local_rank} and $local_rank replaced, $$ turned into $, all else as it is.
std::string with_local_rank(std::string_view argument, int local_rank);

/// Replaces $name and ${name} for the names given and $$ by $; leaves all else as it is, as
/// Python's string.Template.safe_substitute does.
std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace shampoo::launcher
