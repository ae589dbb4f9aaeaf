// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace shampoo {

/// One started collective: everything that MPI may touch until it has completed. Used again after
/// that, so that its arrays are allocated once.
///
/// MPI counts in int. What lies beyond that travels as one element, of a datatype that describes
/// its place and length.
class MpiOperation {
 public:
  using Counts = std::span<const std::int64_t>;

  /// Bytes that end beyond `most_bytes` go without int; 1 <= most_bytes <= INT_MAX, the same on all
  /// ranks.
  MpiOperation(MPI_Comm communicator, std::int64_t most_bytes);
  /// A pending one must not be destroyed.
  ~MpiOperation() { free_types(); }
  MpiOperation(const MpiOperation&) = delete;
  MpiOperation& operator=(const MpiOperation&) = delete;

  void all_gather(void* everyone, Counts counts);
  void all_to_all(const void* send, Counts send_counts, void* receive, Counts receive_counts);
  void broadcast(void* data, std::int64_t bytes, int root);
  void barrier();

  /// Whether it has completed; gives MPI the time to go on with it.
  bool test();
  bool pending() const { return request_ != MPI_REQUEST_NULL; }
  /// Free for another collective; gives the loan back.
  void release() {
    ticket = 0;
    owner.reset();
  }

  std::uint64_t ticket = 0;                     ///< 0: free
  std::chrono::steady_clock::time_point start;  ///< of the collective
  std::shared_ptr<const void> owner;            ///< of its buffers

 private:
  /// What goes to, or comes from, every rank.
  struct Side {
    std::vector<int> counts, begins;
    std::vector<MPI_Datatype> types;
  };

  void place(std::int64_t begin, std::int64_t bytes, Side& side, int rank);
  void place_all(Counts bytes, Side& side);
  MPI_Datatype datatype(std::int64_t begin, std::int64_t bytes);
  void exchange(const void* send, void* receive);
  void free_types() noexcept;

  MPI_Comm communicator_;
  std::int64_t most_bytes_;
  int rank_ = 0, size_ = 0;
  MPI_Request request_ = MPI_REQUEST_NULL;
  Side send_, receive_;
  std::vector<MPI_Datatype> made_;
};

}  // namespace shampoo
