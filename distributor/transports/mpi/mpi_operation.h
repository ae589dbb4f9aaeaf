// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "distributor/communicator.h"

namespace shampoo {

/// Throws CommunicationError with MPI's message unless `code` is MPI_SUCCESS. `call` is the name of
/// the function that returned it.
void check_mpi(int code, const char* call);

/// A nonblocking collective and all memory that MPI accesses until it completes. Reused, so that
/// its arrays are allocated once.
///
/// MPI counts in int. Larger messages, or messages at larger offsets, are sent as one element of a
/// datatype that describes offset and length.
class MpiOperation {
 public:
  using Counts = std::span<const std::int64_t>;

  /// Data that ends beyond `max_count` bytes is sent by datatype; 1 <= max_count <= INT_MAX, equal
  /// on all ranks.
  MpiOperation(int rank, int size, std::int64_t max_count);
  /// Must not be pending.
  ~MpiOperation() { free_types(); }
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  /// Takes the operation for a collective on `comm`, which it begins next.
  void acquire(MPI_Comm comm, const CollectiveCall& next, std::shared_ptr<const void> lease) {
    comm_ = comm;
    call = next;
    start = std::chrono::steady_clock::now();
    keep_alive = std::move(lease);
  }
  void all_gather(void* data, Counts counts);
  void all_to_all(const void* send, Counts send_counts, void* receive, Counts receive_counts);
  void broadcast(void* data, std::int64_t bytes, int root);
  void barrier();

  /// True if complete. Lets MPI make progress.
  bool test();
  bool pending() const { return request_ != MPI_REQUEST_NULL; }
  /// Ends the lease and makes the operation available for another collective.
  void release() {
    call.ticket = 0;
    keep_alive.reset();
  }

  CollectiveCall call;                          ///< ticket 0: available
  std::chrono::steady_clock::time_point start;  ///< when the collective was started
  std::shared_ptr<const void> keep_alive;       ///< see BufferLease

 private:
  /// Send or receive arguments for every rank.
  struct Side {
    std::vector<int> counts, offsets;
    std::vector<MPI_Datatype> types;
  };

  void place(std::int64_t offset, std::int64_t bytes, Side& side, int rank);
  void place_all(Counts bytes, Side& side);
  MPI_Datatype datatype(std::int64_t offset, std::int64_t bytes);
  void exchange(const void* send, void* receive);
  void free_types() noexcept;

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::int64_t max_count_;
  int rank_, size_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Side send_, receive_;
  std::vector<MPI_Datatype> datatypes_;
};

}  // namespace shampoo
