// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_session.h"

#include <mpi.h>

#include <atomic>
#include <cstdio>

#include "distributor/communicator.h"
#include "distributor/transports/mpi/mpi_operation.h"

namespace shampoo {

namespace {

std::atomic<bool>& abandoned() {
  static std::atomic<bool> flag{false};
  return flag;
}

/// From MPI_Init to the end of the process.
class Session {
 public:
  Session() {
    abandoned();  // constructed first, so destroyed last
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
  }
  ~Session() {
    if (!mpi_is_usable()) return;
    if (abandoned())
      std::fputs("shampoo: MPI_Finalize is skipped, as a collective is still pending\n", stderr);
    else
      MPI_Finalize();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

}  // namespace

void begin_mpi() {
  int initialized = 0, finalized = 0;
  check_mpi(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized) throw CommunicationError("MPI has already been finalized");
  check_mpi(MPI_Initialized(&initialized), "MPI_Initialized");
  if (!initialized) static const Session session;
}

void abandon_mpi() noexcept { abandoned() = true; }

bool mpi_is_usable() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized && !finalized;
}

int mpi_thread_level() {
  int level = MPI_THREAD_SINGLE;
  if (mpi_is_usable()) MPI_Query_thread(&level);
  return level;
}

}  // namespace shampoo
