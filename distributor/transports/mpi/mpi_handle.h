// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <memory>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/system/backoff.h"
#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/mpi/mpi_session.h"

namespace shampoo {

/// Owns an MPI communicator.
class MpiHandle {
 public:
  explicit MpiHandle(MPI_Comm comm) : comm_(comm) {}
  ~MpiHandle() {
    if (comm_ != MPI_COMM_NULL && mpi_is_usable()) MPI_Comm_free(&comm_);
  }
  MpiHandle(MpiHandle&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  MpiHandle& operator=(MpiHandle&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }

  MPI_Comm get() const { return comm_; }
  /// Leaks the communicator, as operations on it are pending.
  void leak() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_;
};

/// A nonblocking MPI call: `Result` is what MPI writes until the call is complete. Leaked if it is
/// destroyed before.
template <typename Result>
class MpiCall {
 public:
  /// start(result, request) makes the call.
  template <typename Start>
  explicit MpiCall(const Start& start) : pending_(std::make_unique<Pending>()) {
    start(pending_->result, &pending_->request);
  }
  ~MpiCall() {
    if (!pending_ || pending_->request == MPI_REQUEST_NULL) return;
    static_cast<void>(pending_.release());
    abandon_mpi();
  }
  MpiCall(MpiCall&&) noexcept = default;
  MpiCall(const MpiCall&) = delete;
  MpiCall& operator=(const MpiCall&) = delete;
  MpiCall& operator=(MpiCall&&) = delete;

  bool test() {
    int completed = 0;
    check_mpi(MPI_Test(&pending_->request, &completed, MPI_STATUS_IGNORE), "MPI_Test");
    return completed;
  }
  Result& result() { return pending_->result; }

 private:
  struct Pending {
    Result result{};
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::unique_ptr<Pending> pending_;
};

/// Takes ownership; errors are returned from now on.
MpiHandle own_comm(MPI_Comm comm);

/// Begins to duplicate a communicator. Collective.
MpiCall<MPI_Comm> start_duplicate(MPI_Comm original);

// Collective; blocking. Throw CommunicationError if some rank does not take part before `end`.
MpiHandle duplicate_comm(MPI_Comm original, std::chrono::steady_clock::time_point end);
/// A rank's number among those of its host is found by the hosts' names.
RankInfo gather_rank_info(MPI_Comm comm, std::chrono::steady_clock::time_point end);
/// MPI_Comm_split, which has no nonblocking form: runs on a thread of its own, so that a rank that
/// stops meanwhile stops only that thread. Below MPI_THREAD_MULTIPLE it has no deadline.
MpiHandle split_comm(MPI_Comm comm, int color, int key, std::chrono::steady_clock::time_point end);

}  // namespace shampoo
