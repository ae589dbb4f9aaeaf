// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "shampoo/distributor/communicator.h"

namespace shampoo {

/// True if the library's module for MPI is there.
bool has_mpi();

/// All ranks of MPI_COMM_WORLD, in host memory, on a duplicate of that communicator. Collective;
/// blocks for at most `deadline`, from 1 ms to one year. Initializes MPI with MPI_THREAD_MULTIPLE
/// if necessary, and then finalizes it at the end of the process, unless a collective is still
/// pending, which is reported on standard error. MPI_Init has no deadline of its own: while a
/// process of the job does not start, it waits; if it takes longer than `deadline`, this throws
/// afterwards.
///
/// MPI makes progress only while a rank waits: a wait that begins late still polls for
/// min(deadline, 1 s). After a failure a rank waits up to min(deadline, clamp(deadline / 4, 1 s,
/// 10 s)) for the others to respond, then throws; silent ranks are reported as missing. abort()
/// tells the ranks that wait; below MPI_THREAD_MULTIPLE only on the thread that initialized MPI,
/// and on others the ranks miss their deadline.
///
/// Calls of a new kind or size make an MPI communicator first, so they block until all ranks come;
/// the last 16 kinds and sizes are kept. split() makes its blocking MPI call on a thread, if MPI
/// provides MPI_THREAD_MULTIPLE, and otherwise without a deadline.
///
/// Throws std::invalid_argument where has_mpi() is false, and CommunicationError if MPI fails or
/// ranks do not arrive before the deadline.
std::unique_ptr<Communicator> mpi_communicator(
    std::chrono::milliseconds deadline = std::chrono::minutes(10));

/// The same for the ranks of an existing intracommunicator. `mpi_comm` points to an MPI_Comm;
/// mpi_interop.h has a typed overload. Throws std::invalid_argument for other handles, and unless
/// MPI is initialized.
std::unique_ptr<Communicator> mpi_communicator_of(
    const void* mpi_comm, std::chrono::milliseconds deadline = std::chrono::minutes(10));

}  // namespace shampoo
