// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

/// Throws CommunicationError in MPI's own words unless `code` is MPI_SUCCESS. `call` names the
/// function that returned it.
void check_mpi(int code, const char* call);

}  // namespace shampoo
