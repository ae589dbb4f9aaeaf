// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "distributor/rendezvous/join.h"
#include "distributor/rendezvous/launcher_environment.h"

namespace shampoo::rendezvous {

/// How a process was started.
enum class Start : std::uint8_t { given, torchrun, open_mpi, mpich, slurm, alone };

std::string_view name_of(Start start);

/// This process's place in its job, as options and the launcher's variables define it.
struct Detected {
  Start start = Start::alone;
  int rank = 0, size = 1, local_rank = 0;
  std::optional<int> local_size = {};  ///< number of ranks on this host; empty: unknown
  std::string host = {};               ///< host of the store; empty: unknown
  std::uint16_t port = 0;              ///< port of the store; 0: unknown
  bool has_pmi = false;                ///< true if srun serves PMI, by which MPICH connects ranks
  bool agent_hosts_store = false;      ///< true if the launcher serves the store, not rank 0
  std::string job = {};                ///< name that tells apart jobs that use one store
  std::string secret = {};             ///< of the job; empty: none
  int restarts = 0;                    ///< restarts of its workers, as its launcher counts them
};

/// True if ranks may be on other hosts than the store, as far as is known.
bool may_have_several_hosts(const Detected& detected);

/// Applies the order that join() documents. Pure.
/// Throws std::invalid_argument for options out of range, and one for variables that are incomplete
/// or contradict each other: problems, variables found, accepted names and ranges.
Detected detect(const Environment& variables, const JoinOptions& options = {});

}  // namespace shampoo::rendezvous
