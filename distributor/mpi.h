// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/communicator.h"

namespace shampoo {

/// Whether this build has MPI.
bool has_mpi();

/// All ranks of MPI_COMM_WORLD, in host memory. Collective. Initialises MPI, with
/// MPI_THREAD_MULTIPLE, where nobody has, and then finalises it at the end of the process, unless
/// a collective is still pending. Works on a duplicate.
/// Throws std::invalid_argument where this build has no MPI, naming the package and the CMake
/// option, and CommunicationError where MPI fails.
std::unique_ptr<Communicator> mpi_communicator();

/// The ranks of the caller's communicator, of which a duplicate is made. Collective. `mpi_comm`
/// points to an MPI_Comm; distributor/mpi_interop.h has a function that takes one.
std::unique_ptr<Communicator> mpi_communicator_of(const void* mpi_comm);

}  // namespace shampoo
