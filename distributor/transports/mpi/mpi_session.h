// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

/// Initializes MPI unless that was done before; MPI is then finalized when the process ends, as it
/// cannot be initialized twice. Throws CommunicationError if MPI fails or was finalized.
void begin_mpi();

/// Skips MPI_Finalize at the end of the process, with a line on standard error, because it might
/// never return while an operation is pending.
void abandon_mpi() noexcept;

/// True between initialization and finalization.
bool mpi_is_usable();

/// What MPI allows to threads: MPI_THREAD_MULTIPLE unless the program initialized MPI otherwise, or
/// MPI cannot.
int mpi_thread_level();

}  // namespace shampoo
