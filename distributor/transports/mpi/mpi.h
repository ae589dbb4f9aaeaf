// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "distributor/communicator.h"

namespace shampoo {

/// Whether this build has MPI.
bool has_mpi();

/// All ranks of MPI_COMM_WORLD, in host memory. Collective. Initialises MPI, with
/// MPI_THREAD_MULTIPLE, where nobody has, and then finalises it at the end of the process, unless
/// a collective is still pending; then a line on standard error says that it did not. Works on a
/// duplicate, for which it waits no longer than `deadline`, at least 1 ms.
///
/// MPI goes on with a collective only while somebody waits for it, so a wait that begins late has a
/// second, or the deadline where that is shorter, even when the deadline is over. A rank that fails
/// waits for a word from the others, a quarter of the deadline and from 1 to 10 s (never more than
/// the deadline), then it throws: those who said none are missing. abort() reaches the other ranks
/// through MPI_Abort, which ends the processes of the job; the reason is written to standard error
/// first. Throws std::invalid_argument where this build has no MPI, naming the package and the
/// CMake option, and CommunicationError where MPI fails or ranks do not come.
std::unique_ptr<Communicator> mpi_communicator(
    std::chrono::milliseconds deadline = std::chrono::minutes(10));

/// The ranks of the caller's communicator, of which a duplicate is made. Collective. `mpi_comm`
/// points to an MPI_Comm; distributor/mpi_interop.h has a function that takes one.
std::unique_ptr<Communicator> mpi_communicator_of(
    const void* mpi_comm, std::chrono::milliseconds deadline = std::chrono::minutes(10));

}  // namespace shampoo
