// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "distributor/transports/transport.h"

namespace shampoo {

/// Makes a communicator of a transport: the library's code, for the module.
using MakeCommunicator =
    std::unique_ptr<Communicator> (*)(std::unique_ptr<CollectiveTransport> transport);

/// What libshampoo_mpi.so has for the library. See mpi.h and mpi_interop.h for the meaning.
struct MpiModule {
  const char* shampoo_version;  ///< of both, which must be equal
  std::string_view implementation;
  std::size_t handle_bytes;
  /// Size of MPI_COMM_WORLD; 0 if MPI is not usable now.
  int (*world_size)();
  std::unique_ptr<Communicator> (*world)(std::chrono::milliseconds deadline, MakeCommunicator make);
  std::unique_ptr<Communicator> (*of)(const void* mpi_comm, std::chrono::milliseconds deadline,
                                      MakeCommunicator make);
};

/// Size of MPI_COMM_WORLD; 0 if MPI is not usable now or not part of this process.
int mpi_world_size();

/// True if the library's module is there and was built for MPICH or a derivative.
bool is_mpich();

}  // namespace shampoo
