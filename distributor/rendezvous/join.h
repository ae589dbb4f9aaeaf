// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "distributor/communicator.h"
#include "kernels/backend.h"

namespace shampoo {

/// Who starts the processes of a job and tells them their ranks.
enum class Launcher : std::uint8_t {
  automatic,  ///< found out, see join()
  torchrun,   ///< torchrun and shampoorun
  mpi,        ///< mpirun of Open MPI, MPICH or Intel MPI
  slurm,      ///< srun
  one_rank    ///< nobody: this process is the whole job
};

/// What ranks talk over.
enum class Transport : std::uint8_t {
  automatic,  ///< NCCL for a backend in CUDA memory; otherwise MPI under mpirun, Gloo elsewhere
  mpi,
  gloo,
  nccl
};

struct JoinOptions {
  Launcher launcher = Launcher::automatic;
  Transport transport = Transport::automatic;

  /// This process's place, in place of what a launcher says: both or none. Then `host` and `port`
  /// are needed too, unless size is 1.
  std::optional<int> rank = {}, size = {};
  int local_rank = 0;  ///< read only where `rank` is set

  /// Where ranks meet, in place of what the launcher says: the store at this host and port. Rank 0
  /// serves it, or joins as a client where the port is taken.
  std::string host = {};
  std::uint16_t port = 0;  ///< 0: what the launcher says

  /// Address of this host that the other ranks can reach. Unless set, the one from which the store
  /// is reached.
  std::string own_address = {};

  std::string job = {};    ///< tells jobs apart that meet at one store; equal on all ranks
  std::string build = {};  ///< free text; ranks whose texts differ refuse to work together

  /// Longest time until all ranks have met and are connected; at least 1 ms. A rank may need a
  /// quarter of it more, at most 5 s: to hear why there is no job, or to connect where the last
  /// ranks came at the last moment.
  std::chrono::milliseconds connect_deadline = std::chrono::minutes(5);
  /// Of each collective, see Communicator::set_deadline().
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// Finds out how this process was started and connects it with the other ranks of its job.
/// Collective; waits for all ranks. The first of these that applies decides, and must be complete:
///
/// 1. `options.rank` and `options.size`
/// 2. torchrun, shampoorun: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT (also when these
///    run inside mpirun or srun). The launcher serves the store if TORCHELASTIC_USE_AGENT_STORE is
///    "True", otherwise rank 0.
/// 3. Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
/// 4. MPICH, Intel MPI: PMI_RANK, PMI_SIZE
/// 5. srun: SLURM_STEP_ID, SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS. Ranks meet at
///    MASTER_ADDR, or the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST; at MASTER_PORT,
///    or SLURM_JOB_ID % 4096 + 61440.
/// 6. none of them: the ranks of MPI_COMM_WORLD where the program has initialised MPI, otherwise
///    one rank
///
/// Empty variables count as absent. One rank needs no transport, and takes a backend of any memory.
/// Of more ranks, those with a backend in CUDA memory are connected by NCCL, each on the device of
/// its backend's stream, of which no two may have the same: under mpirun over MPI, elsewhere over
/// the store. Then the backend must outlive the communicator, see nccl_communicator().
///
/// Throws std::invalid_argument for an option out of range, for variables that are partial or
/// contradict each other, with all that were found; for a backend's memory that the transport does
/// not take; and for a transport that this build lacks. Throws CommunicationError where ranks
/// do not come before the deadline, naming them and the store, or do not fit together: other world
/// size, version or build, one rank twice, two ranks on one CUDA device, a rank with an
/// `own_address` that is not its host's (and that rank std::invalid_argument). All ranks then get
/// the reason.
std::unique_ptr<Communicator> join(kernels::Backend& backend, const JoinOptions& options = {});

}  // namespace shampoo
