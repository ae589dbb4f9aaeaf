// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi.h"

#include <dlfcn.h>

#include <stdexcept>
#include <string>

#include "distributor/transports/module_entry.h"
#include "distributor/transports/mpi/mpi_module.h"

namespace shampoo {

namespace {

/// Calls the program's MPI, if it has one, and whatever wraps its functions.
ModuleEntry<MpiModule> loaded() { return entry_of<MpiModule>("mpi", kernels::Binding::program); }

const MpiModule& mpi_module() {
  return require_entry(loaded(), "MPI", "libopenmpi-dev or libmpich-dev", "SHAMPOO_MPI");
}

std::unique_ptr<Communicator> make(std::unique_ptr<CollectiveTransport> transport) {
  return std::make_unique<Communicator>(std::move(transport));
}

}  // namespace

bool has_mpi() { return loaded().entry != nullptr; }

int mpi_world_size() {
  // Without MPI in the process there is no need to load it.
  if (dlsym(RTLD_DEFAULT, "MPI_Initialized") == nullptr || !has_mpi()) return 0;
  return loaded().entry->world_size();
}

bool is_mpich() { return has_mpi() && loaded().entry->implementation == "MPICH"; }

std::unique_ptr<Communicator> mpi_communicator(std::chrono::milliseconds deadline) {
  return mpi_module().world(deadline, make);
}

std::unique_ptr<Communicator> mpi_communicator_of(const void* mpi_comm,
                                                  std::chrono::milliseconds deadline) {
  const MpiModule& mpi = mpi_module();
  if (!mpi_comm) throw std::invalid_argument("mpi_comm: must point to an MPI_Comm, got null");
  return mpi.of(mpi_comm, deadline, make);
}

void check_mpi_implementation(std::string_view implementation, std::size_t handle_bytes) {
  const MpiModule& mpi = mpi_module();
  if (implementation == mpi.implementation && handle_bytes == mpi.handle_bytes) return;
  throw std::invalid_argument("MPI: this source was compiled for " + std::string(implementation) +
                              ", with handles of " + std::to_string(handle_bytes) +
                              " bytes, and the library for " + std::string(mpi.implementation) +
                              ", with " + std::to_string(mpi.handle_bytes));
}

}  // namespace shampoo
