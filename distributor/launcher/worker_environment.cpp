// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_environment.h"

namespace shampoo::launcher {
namespace {

void set_ranks(const WorkerRanks& ranks, Environment& environment) {
  const auto set = [&](const char* name, int value) { environment[name] = std::to_string(value); };
  set("LOCAL_RANK", ranks.local_rank);
  set("LOCAL_WORLD_SIZE", ranks.local_world_size);
  set("RANK", ranks.rank);
  set("WORLD_SIZE", ranks.world_size);
  set("GROUP_RANK", ranks.group_rank);
  set("GROUP_WORLD_SIZE", ranks.group_world_size);
  set("ROLE_RANK", ranks.role_rank);
  set("ROLE_WORLD_SIZE", ranks.role_world_size);
}

}  // namespace

Environment worker_environment(const LaunchOptions& options, const WorkerStart& start,
                               const Environment& inherited) {
  Environment environment = inherited;
  set_ranks(start.ranks, environment);
  environment["ROLE_NAME"] = options.role;
  environment["MASTER_ADDR"] = start.store_host;
  environment["MASTER_PORT"] = std::to_string(start.store_port);
  environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(start.attempt);
  environment["TORCHELASTIC_MAX_RESTARTS"] = std::to_string(options.max_restarts);
  environment["TORCHELASTIC_RUN_ID"] = options.run_id;
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  environment["TORCHELASTIC_ERROR_FILE"] = start.error_file;
  environment["TORCHELASTIC_SIGNALS_TO_HANDLE"] = options.signal_names;
  environment.try_emplace("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
  if (limits_threads(options, inherited)) environment["OMP_NUM_THREADS"] = "1";
  environment.erase("TORCHELASTIC_TIMER_FILE");  // of an enclosing launcher
  environment["SHAMPOORUN_VERSION"] = SHAMPOO_VERSION;
  return environment;
}

bool limits_threads(const LaunchOptions& options, const Environment& inherited) {
  return options.workers > 1 && !inherited.contains("OMP_NUM_THREADS");
}

}  // namespace shampoo::launcher
