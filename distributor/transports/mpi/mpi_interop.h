// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <memory>
#include <string_view>

#include "shampoo/distributor/transports/mpi/mpi.h"

namespace shampoo {

/// MPI implementation that this source is compiled for; their handles are incompatible.
#if defined(OPEN_MPI)
constexpr std::string_view mpi_implementation = "Open MPI";
#elif defined(MPICH)
constexpr std::string_view mpi_implementation = "MPICH";
#else
constexpr std::string_view mpi_implementation = "another MPI";
#endif

/// Throws std::invalid_argument unless the library was built for this implementation and size of
/// MPI_Comm.
void check_mpi_implementation(std::string_view implementation, std::size_t handle_bytes);

/// As mpi_communicator_of(). Throws std::invalid_argument, too, if the caller was compiled for
/// another MPI implementation than the library.
inline std::unique_ptr<Communicator> mpi_communicator(MPI_Comm original) {
  check_mpi_implementation(mpi_implementation, sizeof(MPI_Comm));
  return mpi_communicator_of(&original);
}

}  // namespace shampoo
