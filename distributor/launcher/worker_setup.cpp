// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/worker_setup.h"

#include <algorithm>
#include <cctype>

namespace shampoo::launcher {
namespace {

/// Characters of $name or ${name} at the beginning of `text`; 0: it begins otherwise.
std::size_t placeholder_size(std::string_view text, const std::string& name) {
  if (text.starts_with("${" + name + "}")) return name.size() + 3;
  if (!text.starts_with("$" + name)) return 0;
  const std::size_t size = name.size() + 1;
  const char next = size < text.size() ? text[size] : ' ';
  return next == '_' || std::isalnum(static_cast<unsigned char>(next)) ? 0 : size;
}

}  // namespace

std::vector<WorkerRanks> ranks_of(const Order& order, int node) {
  const Member& own = order.members[static_cast<std::size_t>(node)];
  WorkerRanks first;
  first.local_world_size = own.workers;
  first.group_rank = node;
  first.group_world_size = static_cast<int>(order.members.size());
  first.world_size = first.role_world_size = 0;
  for (const Member& member : order.members) {
    if (&member == &own) {
      first.rank = first.world_size;
      first.role_rank = first.role_world_size;
    }
    first.world_size += member.workers;
    if (member.role == own.role) first.role_world_size += member.workers;
  }
  std::vector<WorkerRanks> result(static_cast<std::size_t>(own.workers));
  for (WorkerRanks& ranks : result) {
    ranks = first;
    ++first.local_rank, ++first.rank, ++first.role_rank;
  }
  return result;
}

Environment worker_environment(const LaunchOptions& options, const WorkerStart& start,
                               const Environment& inherited) {
  Environment environment = inherited;
  const auto set = [&](const char* name, int value) { environment[name] = std::to_string(value); };
  set("LOCAL_RANK", start.ranks.local_rank);
  set("LOCAL_WORLD_SIZE", start.ranks.local_world_size);
  set("RANK", start.ranks.rank);
  set("WORLD_SIZE", start.ranks.world_size);
  set("GROUP_RANK", start.ranks.group_rank);
  set("GROUP_WORLD_SIZE", start.ranks.group_world_size);
  set("ROLE_RANK", start.ranks.role_rank);
  set("ROLE_WORLD_SIZE", start.ranks.role_world_size);
  environment["ROLE_NAME"] = options.role;
  environment["MASTER_ADDR"] = start.store_host;
  set("MASTER_PORT", start.store_port);
  set("TORCHELASTIC_RESTART_COUNT", start.attempt);
  set("TORCHELASTIC_MAX_RESTARTS", options.max_restarts);
  environment["TORCHELASTIC_RUN_ID"] = options.run_id;
  if (options.secret_is_new) environment["SHAMPOO_JOB_SECRET"] = options.secret;
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

std::vector<std::string> worker_command(const LaunchOptions& options, int local_rank,
                                        const Environment& environment) {
  const bool wants_python = options.runner == Runner::automatic ? options.program.ends_with(".py")
                                                                : options.runner != Runner::direct;
  std::vector<std::string> command{options.program};
  if (wants_python) {
    command = {value_or(environment, "PYTHON_EXEC", "python3"), "-u"};
    if (options.runner == Runner::module) command.emplace_back("-m");
    command.push_back(with_local_rank(options.program, local_rank));
  }
  for (const std::string& argument : options.arguments)
    command.push_back(with_local_rank(argument, local_rank));
  return command;
}

std::string with_local_rank(std::string_view argument, int local_rank) {
  return fill_template(argument, {{"local_rank", std::to_string(local_rank)}});
}

std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  while (true) {
    const std::size_t dollar = std::min(text.find('$'), text.size());
    result += text.substr(0, dollar);
    text.remove_prefix(dollar);
    if (text.empty()) return result;
    std::size_t size = text.starts_with("$$") ? 2 : 1;
    std::string_view shown = "$";
    for (const auto& [name, value] : values) {
      if (const std::size_t found = placeholder_size(text, name)) {
        size = found;
        shown = value;
      }
    }
    result += shown;
    text.remove_prefix(size);
  }
}

}  // namespace shampoo::launcher
