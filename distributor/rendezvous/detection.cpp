// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/detection.h"

#include <array>
#include <stdexcept>

#include "distributor/rendezvous/host_list.h"
#include "distributor/rendezvous/launcher_environment.h"

namespace shampoo::joining {
namespace {

constexpr std::int64_t most_ranks = 1 << 20;
constexpr std::int64_t last_port = 65'535;
// Larger numbers stand for the batch script, an interactive shell and the like.
constexpr std::int64_t last_step = 0xfffffff0 - 1;

/// Numbers of ranks and of this one, read from `rank` and `size`.
void read_place(Evidence& evidence, std::string_view rank,
                std::initializer_list<std::string_view> size, Detected& place) {
  const auto ranks = evidence.number(size, 1, most_ranks);
  const auto own = evidence.number({rank}, 0, ranks.value_or(most_ranks) - 1);
  place.size = static_cast<int>(ranks.value_or(1));
  place.rank = static_cast<int>(own.value_or(0));
}

void read_local(Evidence& evidence, std::string_view rank, std::string_view size, bool required,
                Detected& place) {
  std::optional<std::int64_t> ranks;
  if (!size.empty()) ranks = evidence.number({size}, 1, place.size, false);
  const auto own = evidence.number({rank}, 0, ranks.value_or(place.size) - 1, required);
  if (ranks) place.local_size = static_cast<int>(*ranks);
  place.local_rank = static_cast<int>(own.value_or(0));
}

/// A common leftover of scripts: not needed here, but a lie would be a trap.
void compare_world_size(Evidence& evidence, const Detected& place) {
  const std::string world = evidence.text_or("WORLD_SIZE", {});
  if (world.empty() || world == std::to_string(place.size)) return;
  evidence.problem("WORLD_SIZE says " + world.substr(0, 32) + " ranks and " +
                   std::string(name_of(place.start)) + " " + std::to_string(place.size));
}

void read_master(Evidence& evidence, bool required, Detected& place) {
  if (required || evidence.has("MASTER_ADDR")) {
    place.host = evidence.text({"MASTER_ADDR"}).value_or("");
  }
  if (required || evidence.has("MASTER_PORT")) {
    const auto port = evidence.number({"MASTER_PORT"}, 1, last_port);
    place.port = static_cast<std::uint16_t>(port.value_or(0));
  }
}

/// Torch renamed this variable in the release that renumbered the requests.
StoreProtocol protocol_hint(const Evidence& evidence) {
  const bool newer = evidence.has("TORCH_NCCL_ASYNC_ERROR_HANDLING");
  const bool older = evidence.has("NCCL_ASYNC_ERROR_HANDLING");
  if (newer == older) return StoreProtocol::automatic;
  return newer ? StoreProtocol::torch_2 : StoreProtocol::torch_1;
}

Detected detect_torchrun(const Variables& variables) {
  Evidence evidence(variables, "torchrun");
  Detected found{.start = Start::torchrun};
  read_place(evidence, "RANK", {"WORLD_SIZE"}, found);
  read_local(evidence, "LOCAL_RANK", "LOCAL_WORLD_SIZE", true, found);
  read_master(evidence, true, found);
  found.agent_hosts_store = evidence.text_or("TORCHELASTIC_USE_AGENT_STORE", {}) == "True";
  if (found.agent_hosts_store) found.protocol = protocol_hint(evidence);
  evidence.check();
  return found;
}

Detected detect_open_mpi(const Variables& variables) {
  Evidence evidence(variables, "Open MPI");
  Detected found{.start = Start::open_mpi};
  read_place(evidence, "OMPI_COMM_WORLD_RANK", {"OMPI_COMM_WORLD_SIZE"}, found);
  read_local(evidence, "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", false, found);
  read_master(evidence, false, found);
  compare_world_size(evidence, found);
  evidence.check();
  return found;
}

Detected detect_mpich(const Variables& variables) {
  Evidence evidence(variables, "MPICH or Intel MPI");
  Detected found{.start = Start::mpich};
  read_place(evidence, "PMI_RANK", {"PMI_SIZE"}, found);
  read_local(evidence, "MPI_LOCALRANKID", "MPI_LOCALNRANKS", false, found);
  read_master(evidence, false, found);
  compare_world_size(evidence, found);
  evidence.check();
  return found;
}

void read_slurm_meeting_point(Evidence& evidence, std::optional<std::int64_t> job,
                              Detected& found) {
  read_master(evidence, false, found);
  if (!evidence.has("MASTER_PORT") && job) {
    found.port = static_cast<std::uint16_t>(*job % 4096 + 61'440);
  }
  if (!found.host.empty()) return;
  const auto hosts = evidence.text({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (!hosts) return;
  try {
    found.host = first_host(*hosts);
  } catch (const std::invalid_argument& error) {
    evidence.problem(error.what());
  }
}

Detected detect_slurm(const Variables& variables) {
  Evidence evidence(variables, "srun");
  Detected found{.start = Start::slurm};
  read_place(evidence, "SLURM_PROCID", {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, found);
  read_local(evidence, "SLURM_LOCALID", "", found.size > 1, found);
  const auto step = evidence.number({"SLURM_STEP_ID"}, 0, last_step);
  const auto job = evidence.number({"SLURM_JOB_ID"}, 0, std::int64_t{1} << 32);
  const auto nodes =
      evidence.number({"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}, 1, most_ranks, false);
  if (nodes == 1) found.local_size = found.size;
  if (job && step) found.job = "slurm-" + std::to_string(*job) + "." + std::to_string(*step);
  if (found.size > 1) read_slurm_meeting_point(evidence, job, found);
  compare_world_size(evidence, found);
  evidence.check();
  return found;
}

bool is_slurm_step(const Evidence& evidence) {
  const std::string step = evidence.text_or("SLURM_STEP_ID", {});
  // A number with as many digits as a special one is at least as large for our purpose.
  return !step.empty() && (step.size() < 10 || step < std::to_string(last_step + 1));
}

Detected detect_automatic(const Variables& variables) {
  const Evidence evidence(variables, "");
  if (evidence.has("RANK") || evidence.has("TORCHELASTIC_RUN_ID")) {
    return detect_torchrun(variables);
  }
  if (evidence.has("OMPI_COMM_WORLD_RANK") || evidence.has("OMPI_COMM_WORLD_SIZE")) {
    return detect_open_mpi(variables);
  }
  if (evidence.has("PMI_RANK") || evidence.has("PMI_SIZE")) return detect_mpich(variables);
  if (is_slurm_step(evidence)) return detect_slurm(variables);
  if (evidence.has("WORLD_SIZE") || evidence.has("LOCAL_RANK")) return detect_torchrun(variables);
  return {};
}

Detected detect_mpi(const Variables& variables) {
  const Evidence evidence(variables, "");
  const bool mpich = evidence.has("PMI_RANK") || evidence.has("PMI_SIZE");
  const bool open = evidence.has("OMPI_COMM_WORLD_RANK") || evidence.has("OMPI_COMM_WORLD_SIZE");
  return mpich && !open ? detect_mpich(variables) : detect_open_mpi(variables);
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

Detected detect_launcher(const Variables& variables, const JoinOptions& options) {
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

Detected detect(const Variables& variables, const JoinOptions& options) {
  Detected found = detect_launcher(variables, options);
  const bool moved = (!options.host.empty() && options.host != found.host) ||
                     (options.port != 0 && options.port != found.port);
  if (!options.host.empty()) found.host = options.host;
  if (options.port != 0) found.port = options.port;
  // The launcher promises a store at its own address only.
  if (moved) {
    found.agent_hosts_store = false;
    found.protocol = StoreProtocol::automatic;
  }
  if (!options.job.empty()) found.job = options.job;
  return found;
}

}  // namespace shampoo::joining
