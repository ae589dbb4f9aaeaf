// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "distributor/launcher/command_line/launch_options.h"
#include "distributor/launcher/environment.h"

namespace shampoo::launcher {

/// A worker's place in the job, which may change from one attempt to the next.
struct WorkerRanks {
  int local_rank = 0, local_world_size = 1;
  int rank = 0, world_size = 1;
  int group_rank = 0, group_world_size = 1;  ///< of the node
  int role_rank = 0, role_world_size = 1;
};

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

}  // namespace shampoo::launcher
