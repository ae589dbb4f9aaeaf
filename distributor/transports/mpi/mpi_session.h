// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

/// Initialises MPI unless somebody has. Only then, MPI is finalised when the process ends: it
/// cannot be initialised a second time, so no communicator's end is the right moment.
/// Throws CommunicationError where MPI fails or was finalised before.
void begin_mpi();

/// Something is pending that nobody will wait for: MPI_Finalize might never return and is left out
/// at the end of the process, with a line on standard error.
void abandon_mpi() noexcept;

/// Between initialisation and finalisation.
bool mpi_is_usable();

/// Ranks of MPI_COMM_WORLD; 0 where MPI is not usable now, or this build has none.
int mpi_world_size();

}  // namespace shampoo
