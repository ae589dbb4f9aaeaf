// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi.h"

#include <mpi.h>

#include <stdexcept>
#include <string>

#include "distributor/transports/mpi/mpi_interop.h"
#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/mpi/mpi_session.h"
#include "distributor/transports/mpi/mpi_transport.h"
#include "distributor/transports/transport.h"

namespace shampoo {

bool has_mpi() { return true; }

namespace {

std::unique_ptr<Communicator> connect(MPI_Comm original, std::chrono::milliseconds deadline) {
  validate_deadline(deadline);
  const auto end = std::chrono::steady_clock::now() + deadline;
  return make_mpi_communicator(duplicate_comm(original, end), end, deadline);
}

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(std::chrono::milliseconds deadline) {
  begin_mpi();
  return connect(MPI_COMM_WORLD, deadline);
}

std::unique_ptr<Communicator> mpi_communicator_of(const void* mpi_comm,
                                                  std::chrono::milliseconds deadline) {
  if (!mpi_comm) throw std::invalid_argument("mpi_comm: must point to an MPI_Comm, got null");
  if (!mpi_is_usable())
    throw std::invalid_argument("mpi_comm: MPI must be initialized and not yet finalized");
  const MPI_Comm original = *static_cast<const MPI_Comm*>(mpi_comm);
  if (original == MPI_COMM_NULL)
    throw std::invalid_argument("mpi_comm: must be a communicator, got MPI_COMM_NULL");
  int between_groups = 0;
  check_mpi(MPI_Comm_test_inter(original, &between_groups), "MPI_Comm_test_inter");
  if (between_groups)
    throw std::invalid_argument("mpi_comm: must be an intracommunicator, got an intercommunicator");
  return connect(original, deadline);
}

void check_mpi_implementation(std::string_view implementation, std::size_t handle_bytes) {
  if (implementation == mpi_implementation && handle_bytes == sizeof(MPI_Comm)) return;
  throw std::invalid_argument("MPI: this source was compiled for " + std::string(implementation) +
                              ", with handles of " + std::to_string(handle_bytes) +
                              " bytes, and the library for " + std::string(mpi_implementation) +
                              ", with " + std::to_string(sizeof(MPI_Comm)));
}

}  // namespace shampoo
