// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <climits>
#include <cstdint>
#include <memory>

#include "distributor/communicator.h"
#include "distributor/transports/mpi/mpi_handle.h"
#include "distributor/transports/mpi/mpi_module.h"

namespace shampoo {

/// A communicator on a duplicate, whose collectives have this deadline. Collective; blocks until
/// `end` at most. See MpiOperation for `max_count`.
std::unique_ptr<Communicator> make_mpi_communicator(MpiHandle duplicate,
                                                    std::chrono::steady_clock::time_point end,
                                                    std::chrono::milliseconds deadline,
                                                    MakeCommunicator make,
                                                    std::int64_t max_count = INT_MAX);

}  // namespace shampoo
