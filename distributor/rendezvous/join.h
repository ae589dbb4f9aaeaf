// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "shampoo/distributor/communicator.h"
#include "shampoo/kernels/backend.h"

namespace shampoo {

/// Launcher that started the processes of a job and assigns their ranks. Empty variables count as
/// absent.
enum class Launcher : std::uint8_t {
  automatic,  ///< the first of the following whose variables are present, see join()
  /// torchrun and shampoorun, also inside mpirun or srun: RANK, WORLD_SIZE, LOCAL_RANK,
  /// MASTER_ADDR, MASTER_PORT. The launcher serves the store if TORCHELASTIC_USE_AGENT_STORE is
  /// "True", otherwise rank 0 does. TORCHELASTIC_RUN_ID keeps jobs apart,
  /// TORCHELASTIC_RESTART_COUNT helps to keep their attempts apart.
  torchrun,
  /// Open MPI: OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE. MPICH, Intel MPI: PMI_RANK, PMI_SIZE,
  /// unless they are those of srun.
  mpi,
  /// srun: SLURM_STEP_ID, SLURM_PROCID, SLURM_STEP_NUM_TASKS or SLURM_NTASKS. The store's host is
  /// MASTER_ADDR, or the first of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST; its port MASTER_PORT,
  /// or SLURM_JOB_ID % 4096 + 61440. With --mpi=pmi2, where the library is built for MPICH, ranks
  /// find each other through MPI.
  slurm,
  one_rank  ///< none: this process is the whole job
};

/// Library that ranks communicate over.
enum class Transport : std::uint8_t {
  automatic,  ///< NCCL for a backend in CUDA memory; otherwise MPI under mpirun, Gloo elsewhere
  mpi,
  gloo,
  nccl
};

struct JoinOptions {
  Launcher launcher = Launcher::automatic;
  Transport transport = Transport::automatic;

  /// This process's rank, instead of a launcher's: both or none. They need `host` and `port`,
  /// unless size is 1.
  std::optional<int> rank = {}, size = {};
  int local_rank = 0;  ///< rank on this host; read only if `rank` is set

  /// Address of the store through which ranks find each other, instead of the launcher's: a name,
  /// or an address, "::1" or "[::1]". Rank 0 serves it, or is a client if the port is in use.
  std::string host = {};
  std::uint16_t port = 0;  ///< port of the store; 0: the launcher's

  /// Address, name or network interface of this host by which the other ranks reach it over Gloo.
  /// Default: the first interface of GLOO_SOCKET_IFNAME, otherwise the address on the route to the
  /// store, on the store's own host that on the route to a rank of another one. IPv4 unless a rank
  /// has none.
  std::string own_address = {};

  /// Secret of the job, at least 16 bytes, equal on all ranks: the store serves only those who
  /// prove that they know it, and a rank uses only a store that does. Default: SHAMPOO_JOB_SECRET,
  /// or the text of the file SHAMPOO_JOB_SECRET_FILE; without either there is none.
  std::string secret = {};

  /// Name that tells apart jobs that use one store, equal on all ranks, at most 1 KiB.
  std::string job = {};
  std::string build = {};  ///< free text, at most 64 KiB; must be equal on all ranks

  /// Time until all ranks are connected, from 1 ms to one year. Connecting gets at least a quarter
  /// of it or 5 s, whichever is less, even if the last rank comes just in time. MPI_Init cannot be
  /// cut off, see mpi_communicator().
  std::chrono::milliseconds connect_deadline = std::chrono::minutes(5);
  /// Deadline of each collective, from 1 ms to one year: see Communicator::set_deadline().
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// Detects how this process was started and connects it with the other ranks of its job.
/// Collective; waits for all ranks. The first of these decides: options.rank and size; variables of
/// torchrun, Open MPI, MPICH, srun; MPI_COMM_WORLD if the program has initialised MPI; otherwise
/// one rank. With CUDA memory, each rank needs a backend on a device of its own, and the backend
/// must outlive the communicator.
///
/// Throws std::invalid_argument for options out of range, incomplete or contradicting variables
/// (naming all found), unsupported memory, and a transport that is not built in. Throws
/// CommunicationError, with the same reason on all ranks, if ranks are missing at the deadline, two
/// processes have one rank or CUDA device, or ranks differ in world size, library version,
/// transport or build.
std::unique_ptr<Communicator> join(Backend& backend, const JoinOptions& options = {});

/// Rank among those of this host, by the same options and variables; 0 without a launcher. For
/// CudaOptions::device, before there is a backend to join with. Does not communicate. Throws
/// std::invalid_argument like join().
int local_rank_of_launcher(const JoinOptions& options = {});

/// Reports why this process is about to end to its launcher: for the place where main() catches an
/// exception, before it returns a value other than 0. torchrun and shampoorun print the message of
/// the process that failed first.
///
/// Writes the file named by TORCHELASTIC_ERROR_FILE, atomically; does nothing if that is not set or
/// the file cannot be written. Bytes that are not UTF-8 become U+FFFD.
void report_error(std::string_view message) noexcept;

}  // namespace shampoo
