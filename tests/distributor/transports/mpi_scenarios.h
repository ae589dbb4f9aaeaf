// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "distributor/communicator.h"

namespace shampoo::test {

/// All ranks, over a transport of the program's own whose counts end at 7 bytes.
std::unique_ptr<Communicator> small_counts(std::chrono::milliseconds deadline);

/// Further scenarios of mpi_program; each throws on a failed check.

/// MPI, initialised by the program, is used as it is, also where no launcher is known.
void joins_initialised();

/// Rank 0 starts a gather, is busy until after its deadline, and then waits for the others, which
/// come a little later.
void late_wait();

/// Rank 1 is in another call than the others, in every way of mismatch.h.
void mismatches_found();

/// Rank 1 is stopped inside MPI_Comm_split.
void stopped_in_split();

/// MPI refuses to begin.
void failed_start();

}  // namespace shampoo::test
