// SPDX-License-Identifier: Apache-2.0
#include "tests/support/mpi_counter.h"

#include <mpi.h>

#include <atomic>

namespace shampoo::test {
namespace {

std::atomic<std::int64_t> collectives{0};

}  // namespace

std::int64_t mpi_collectives() { return collectives; }

}  // namespace shampoo::test

using shampoo::test::collectives;

extern "C" {

int MPI_Iallgatherv(const void* send, int count, MPI_Datatype send_type, void* receive,
                    const int* counts, const int* begins, MPI_Datatype type, MPI_Comm communicator,
                    MPI_Request* request) {
  ++collectives;
  return PMPI_Iallgatherv(send, count, send_type, receive, counts, begins, type, communicator,
                          request);
}

int MPI_Ialltoallw(const void* send, const int* send_counts, const int* send_begins,
                   const MPI_Datatype* send_types, void* receive, const int* counts,
                   const int* begins, const MPI_Datatype* types, MPI_Comm communicator,
                   MPI_Request* request) {
  ++collectives;
  return PMPI_Ialltoallw(send, send_counts, send_begins, send_types, receive, counts, begins, types,
                         communicator, request);
}

int MPI_Ibcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator,
               MPI_Request* request) {
  ++collectives;
  return PMPI_Ibcast(data, count, type, root, communicator, request);
}

int MPI_Ibarrier(MPI_Comm communicator, MPI_Request* request) {
  ++collectives;
  return PMPI_Ibarrier(communicator, request);
}

// Not ours today: whoever adds one is to be counted too.

int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                  int count, MPI_Datatype type, MPI_Comm communicator) {
  ++collectives;
  return PMPI_Allgather(send, send_count, send_type, receive, count, type, communicator);
}

int MPI_Allgatherv(const void* send, int count, MPI_Datatype send_type, void* receive,
                   const int* counts, const int* begins, MPI_Datatype type, MPI_Comm communicator) {
  ++collectives;
  return PMPI_Allgatherv(send, count, send_type, receive, counts, begins, type, communicator);
}

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op operation,
                  MPI_Comm communicator) {
  ++collectives;
  return PMPI_Allreduce(send, receive, count, type, operation, communicator);
}

int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  ++collectives;
  return PMPI_Bcast(data, count, type, root, communicator);
}

int MPI_Barrier(MPI_Comm communicator) {
  ++collectives;
  return PMPI_Barrier(communicator);
}
}
