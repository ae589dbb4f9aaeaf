// SPDX-License-Identifier: Apache-2.0
// In libshampoo_mpi.so.
#include "distributor/transports/mpi/mpi_module.h"

#include <mpi.h>

#include <stdexcept>
#include <string>

#include "distributor/rank_list.h"
#include "distributor/transports/mpi/mpi_interop.h"
#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/mpi/mpi_session.h"
#include "distributor/transports/mpi/mpi_transport.h"

namespace shampoo {

namespace {

using Clock = std::chrono::steady_clock;

std::unique_ptr<Communicator> connect(MPI_Comm original, Clock::time_point end,
                                      std::chrono::milliseconds deadline, MakeCommunicator make) {
  return make_mpi_communicator(duplicate_comm(original, end), end, deadline, make);
}

std::unique_ptr<Communicator> world(std::chrono::milliseconds deadline, MakeCommunicator make) {
  validate_deadline(deadline);
  const auto end = Clock::now() + deadline;
  begin_mpi();
  if (Clock::now() > end)
    throw CommunicationError("MPI_Init_thread took longer than the deadline of " +
                             seconds_text(deadline));
  return connect(MPI_COMM_WORLD, end, deadline, make);
}

std::unique_ptr<Communicator> of(const void* mpi_comm, std::chrono::milliseconds deadline,
                                 MakeCommunicator make) {
  if (!mpi_is_usable())
    throw std::invalid_argument("mpi_comm: MPI must be initialized and not yet finalized");
  const MPI_Comm original = *static_cast<const MPI_Comm*>(mpi_comm);
  if (original == MPI_COMM_NULL)
    throw std::invalid_argument("mpi_comm: must be a communicator, got MPI_COMM_NULL");
  int between_groups = 0;
  check_mpi(MPI_Comm_test_inter(original, &between_groups), "MPI_Comm_test_inter");
  if (between_groups)
    throw std::invalid_argument("mpi_comm: must be an intracommunicator, got an intercommunicator");
  validate_deadline(deadline);
  return connect(original, Clock::now() + deadline, deadline, make);
}

int world_size() {
  int size = 0;
  if (mpi_is_usable()) MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

constexpr MpiModule module{.shampoo_version = SHAMPOO_VERSION,
                           .implementation = mpi_implementation,
                           .handle_bytes = sizeof(MPI_Comm),
                           .world_size = world_size,
                           .world = world,
                           .of = of};

}  // namespace

extern "C" __attribute__((visibility("default"))) const MpiModule* shampoo_mpi_module() {
  return &module;
}

}  // namespace shampoo
