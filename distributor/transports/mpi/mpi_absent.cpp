// SPDX-License-Identifier: Apache-2.0
#include <stdexcept>

#include "distributor/transports/mpi/mpi.h"
#include "distributor/transports/mpi/mpi_session.h"

namespace shampoo {

namespace {

[[noreturn]] void refuse_mpi() {
  throw std::invalid_argument(
      "MPI: not included in this build; install the package libopenmpi-dev or libmpich-dev and "
      "configure with -DSHAMPOO_MPI=ON");
}

}  // namespace

bool has_mpi() { return false; }

int mpi_world_size() { return 0; }

std::unique_ptr<Communicator> mpi_communicator(std::chrono::milliseconds) { refuse_mpi(); }

std::unique_ptr<Communicator> mpi_communicator_of(const void*, std::chrono::milliseconds) {
  refuse_mpi();
}

}  // namespace shampoo
