// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>

#include "distributor/communicator.h"
#include "distributor/transports/mpi/mpi_module.h"

namespace shampoo {

/// A duplicate that returns errors. Collective. Throws CommunicationError if some rank does not
/// call it before the deadline.
MPI_Comm duplicate_comm(MPI_Comm original, std::chrono::milliseconds deadline);

/// Takes ownership of a duplicate; `deadline` limits this call only. Collective. See MpiOperation
/// for `max_count`.
std::unique_ptr<Communicator> make_mpi_communicator(MPI_Comm duplicate,
                                                    std::chrono::milliseconds deadline,
                                                    MakeCommunicator make,
                                                    std::int64_t max_count = INT_MAX);

}  // namespace shampoo
