// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/detection.h"

#include <array>
#include <optional>
#include <stdexcept>

#include "distributor/rendezvous/host_list.h"
#include "distributor/rendezvous/launcher_environment.h"
#include "distributor/store/proof.h"
#include "distributor/store/socket.h"

namespace shampoo::rendezvous {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t last_port = 65'535;
// Larger numbers stand for the batch script, an interactive shell and the like.
constexpr std::int64_t last_step = 0xfffffff0 - 1;

/// Names of the variables in which a launcher passes ranks.
struct LauncherVariables {
  Start start;
  std::string_view rank, size, other_size, local_rank, local_size;
};

constexpr LauncherVariables torchrun_variables{
    Start::torchrun, "RANK", "WORLD_SIZE", "", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr LauncherVariables open_mpi_variables{Start::open_mpi,
                                               "OMPI_COMM_WORLD_RANK",
                                               "OMPI_COMM_WORLD_SIZE",
                                               "",
                                               "OMPI_COMM_WORLD_LOCAL_RANK",
                                               "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr LauncherVariables mpich_variables{Start::mpich, "PMI_RANK",        "PMI_SIZE",
                                            "",           "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr LauncherVariables slurm_variables{Start::slurm,   "SLURM_PROCID",  "SLURM_STEP_NUM_TASKS",
                                            "SLURM_NTASKS", "SLURM_LOCALID", ""};

bool are_set(const LauncherEnvironment& environment, const LauncherVariables& names) {
  return environment.has(names.rank) || environment.has(names.size);
}

Detected read_ranks(LauncherEnvironment& environment, const LauncherVariables& names) {
  Detected found{.start = names.start};
  const auto size = environment.number({names.size, names.other_size}, 1, most_ranks);
  const auto rank = environment.number({names.rank}, 0, size.value_or(most_ranks) - 1);
  found.size = static_cast<int>(size.value_or(1));
  found.rank = static_cast<int>(rank.value_or(0));
  const bool required =
      names.start == Start::torchrun || (names.start == Start::slurm && found.size > 1);
  const auto local_size = environment.number({names.local_size}, 1, found.size, false);
  const auto local_rank =
      environment.number({names.local_rank}, 0, local_size.value_or(found.size) - 1, required);
  if (local_size) found.local_size = static_cast<int>(*local_size);
  found.local_rank = static_cast<int>(local_rank.value_or(0));
  return found;
}

/// WORLD_SIZE is a common leftover of scripts: not needed here, but it must not contradict.
void check_world_size(LauncherEnvironment& environment, const Detected& found) {
  const std::string_view world = environment.value("WORLD_SIZE");
  if (world.empty() || world == std::to_string(found.size)) return;
  environment.add_problem("WORLD_SIZE says " + std::string(world.substr(0, 32)) + " ranks and " +
                          std::string(name_of(found.start)) + " " + std::to_string(found.size));
}

void read_master(LauncherEnvironment& environment, bool required, Detected& found) {
  if (required || environment.has("MASTER_ADDR")) found.host = environment.text({"MASTER_ADDR"});
  if (required || environment.has("MASTER_PORT")) {
    const auto port = environment.number({"MASTER_PORT"}, 1, last_port);
    found.port = static_cast<std::uint16_t>(port.value_or(0));
  }
}

int read_restarts(LauncherEnvironment& environment, std::string_view name) {
  constexpr std::int64_t most_restarts = 1 << 30;
  return static_cast<int>(environment.number({name}, 0, most_restarts, false).value_or(0));
}

Detected detect_torchrun(const Environment& variables) {
  LauncherEnvironment environment(variables, name_of(Start::torchrun));
  Detected found = read_ranks(environment, torchrun_variables);
  read_master(environment, true, found);
  found.agent_hosts_store = environment.value("TORCHELASTIC_USE_AGENT_STORE") == "True";
  found.job = environment.value("TORCHELASTIC_RUN_ID");
  found.restarts = read_restarts(environment, "TORCHELASTIC_RESTART_COUNT");
  environment.check();
  return found;
}

Detected detect_mpi(const Environment& variables, const LauncherVariables& names) {
  LauncherEnvironment environment(variables, name_of(names.start));
  Detected found = read_ranks(environment, names);
  read_master(environment, false, found);
  check_world_size(environment, found);
  environment.check();
  return found;
}

void read_slurm_master(LauncherEnvironment& environment, std::optional<std::int64_t> job,
                       Detected& found) {
  read_master(environment, false, found);
  if (!environment.has("MASTER_PORT") && job)
    found.port = static_cast<std::uint16_t>(*job % 4096 + 61'440);
  if (!found.host.empty()) return;
  const std::string hosts = environment.text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  try {
    if (!hosts.empty()) found.host = first_host(hosts);
  } catch (const std::invalid_argument& error) {
    environment.add_problem(error.what());
  }
}

Detected detect_slurm(const Environment& variables) {
  LauncherEnvironment environment(variables, name_of(Start::slurm));
  Detected found = read_ranks(environment, slurm_variables);
  const auto step = environment.number({"SLURM_STEP_ID"}, 0, last_step);
  const auto job = environment.number({"SLURM_JOB_ID"}, 0, std::int64_t{1} << 32);
  const auto nodes =
      environment.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1, most_ranks, false);
  if (nodes == 1) found.local_size = found.size;
  if (job && step) found.job = "slurm-" + std::to_string(*job) + "." + std::to_string(*step);
  if (found.size > 1) read_slurm_master(environment, job, found);
  check_world_size(environment, found);
  environment.check();
  return found;
}

bool is_slurm_step(const LauncherEnvironment& environment) {
  const std::string_view step = environment.value("SLURM_STEP_ID");
  // A number with as many digits as a special one is at least as large for this purpose.
  return !step.empty() && (step.size() < 10 || step < std::to_string(last_step + 1));
}

/// True if srun started the process with --mpi=pmi2, whose variables are MPICH's but for the local
/// rank. Under an mpirun inside a step, SLURM_PROCID is that of its daemon.
bool has_pmi_of_slurm(const LauncherEnvironment& environment) {
  return is_slurm_step(environment) && environment.has("PMI_RANK") &&
         environment.value("PMI_RANK") == environment.value("SLURM_PROCID") &&
         !environment.has(mpich_variables.local_rank);
}

Detected detect_automatic(const Environment& variables) {
  const LauncherEnvironment environment(variables, "");
  if (environment.has("RANK") || environment.has("TORCHELASTIC_RUN_ID"))
    return detect_torchrun(variables);
  if (are_set(environment, open_mpi_variables)) return detect_mpi(variables, open_mpi_variables);
  if (has_pmi_of_slurm(environment)) {
    Detected found = detect_slurm(variables);
    found.has_pmi = true;
    return found;
  }
  if (are_set(environment, mpich_variables)) return detect_mpi(variables, mpich_variables);
  if (is_slurm_step(environment)) return detect_slurm(variables);
  if (environment.has("WORLD_SIZE") || environment.has("LOCAL_RANK"))
    return detect_torchrun(variables);
  return {};
}

Detected detect_mpi(const Environment& variables) {
  const LauncherEnvironment environment(variables, "");
  const bool mpich = are_set(environment, mpich_variables);
  const bool open = are_set(environment, open_mpi_variables);
  if (!mpich || open) return detect_mpi(variables, open_mpi_variables);
  LauncherVariables names = mpich_variables;
  if (has_pmi_of_slurm(environment)) names.local_rank = slurm_variables.local_rank;
  return detect_mpi(variables, names);
}

void check_given(bool right, const std::string& text) {
  if (!right) throw std::invalid_argument("join: JoinOptions::" + text);
}

Detected take_given(const JoinOptions& options) {
  check_given(options.rank && options.size, "rank and size must be set both or not at all");
  check_given(options.launcher == Launcher::automatic,
              "launcher must be automatic where rank and size are set");
  const int size = *options.size;
  check_given(size >= 1 && size <= most_ranks,
              "size = " + std::to_string(size) + ", accepted: 1 to " + std::to_string(most_ranks));
  check_given(*options.rank >= 0 && *options.rank < size,
              "rank = " + std::to_string(*options.rank) +
                  ", accepted: 0 to size - 1 = " + std::to_string(size - 1));
  check_given(options.local_rank >= 0 && options.local_rank < size,
              "local_rank = " + std::to_string(options.local_rank) +
                  ", accepted: 0 to size - 1 = " + std::to_string(size - 1));
  check_given(size == 1 || (!options.host.empty() && options.port != 0),
              "host and port must be set where size is more than 1");
  return {
      .start = Start::given, .rank = *options.rank, .size = size, .local_rank = options.local_rank};
}

void check_bytes(const std::string& name, const std::string& text, std::size_t most) {
  if (text.size() <= most) return;
  throw std::invalid_argument("join: " + name + " has " + std::to_string(text.size()) +
                              " bytes, accepted: at most " + std::to_string(most));
}

Detected detect_launcher(const Environment& variables, const JoinOptions& options) {
  if (options.rank || options.size) return take_given(options);
  switch (options.launcher) {
    case Launcher::automatic:
      return detect_automatic(variables);
    case Launcher::torchrun:
      return detect_torchrun(variables);
    case Launcher::mpi:
      return detect_mpi(variables);
    case Launcher::slurm:
      return detect_slurm(variables);
    case Launcher::one_rank:
      return {};
  }
  throw std::invalid_argument("join: JoinOptions::launcher is none of Launcher's values");
}

}  // namespace

std::string_view name_of(Start start) {
  constexpr std::array<std::string_view, 6> names = {"given", "torchrun", "Open MPI",
                                                     "MPICH", "srun",     "one rank"};
  return names.at(static_cast<std::size_t>(start));
}

bool may_have_several_hosts(const Detected& detected) {
  const bool loopback =
      detected.host == "localhost" || detected.host == "::1" || detected.host.starts_with("127.");
  return !loopback && detected.size > 1 && detected.local_size != detected.size;
}

Detected detect(const Environment& variables, const JoinOptions& options) {
  constexpr std::size_t most_job_bytes = 1 << 10, most_build_bytes = 64 << 10;
  Detected found = detect_launcher(variables, options);
  found.host = std::string(store::without_brackets(found.host));
  const std::string host(store::without_brackets(options.host));
  const bool moved =
      (!host.empty() && host != found.host) || (options.port != 0 && options.port != found.port);
  if (!host.empty()) found.host = host;
  if (options.port != 0) found.port = options.port;
  // The launcher promises a store at its own address only.
  if (moved) found.agent_hosts_store = false;
  check_bytes("TORCHELASTIC_RUN_ID", found.job, most_job_bytes);
  check_bytes("JoinOptions::job", options.job, most_job_bytes);
  check_bytes("JoinOptions::build", options.build, most_build_bytes);
  if (!options.job.empty()) found.job = options.job;
  store::check_secret(options.secret);
  found.secret = options.secret.empty() ? store::job_secret(variables) : options.secret;
  return found;
}

}  // namespace shampoo::rendezvous
