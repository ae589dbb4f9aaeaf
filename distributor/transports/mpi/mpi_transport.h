// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "distributor/transports/mpi/mpi_operation.h"
#include "distributor/transports/transport.h"

namespace shampoo {

/// A duplicate that returns errors. Collective. Throws CommunicationError if some rank does not
/// call it before the deadline.
MPI_Comm duplicate_comm(MPI_Comm original, std::chrono::milliseconds deadline);

/// Owns an MPI communicator.
class MpiHandle {
 public:
  explicit MpiHandle(MPI_Comm comm) : comm_(comm) {}
  ~MpiHandle();
  MpiHandle(const MpiHandle&) = delete;
  MpiHandle& operator=(const MpiHandle&) = delete;

  MPI_Comm get() const { return comm_; }
  /// Leaks the communicator, as operations on it are pending.
  void leak() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_;
};

/// MPI's nonblocking collectives, polled until the deadline.
///
/// MPI does not report that a peer has died or stopped. A rank that gives up therefore probes its
/// peers: it sends a heartbeat to all others, on which they give up and send theirs. Those from
/// which none arrives within the failure timeout are missing.
class MpiTransport final : public CollectiveTransport {
 public:
  /// Takes ownership of a duplicate; `deadline` limits the constructor. Collective. See
  /// MpiOperation for `max_count`.
  MpiTransport(MPI_Comm duplicate, std::chrono::milliseconds deadline,
               std::int64_t max_count = INT_MAX);
  ~MpiTransport() override;

  std::string description() const override;
  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease& lease) override;
  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& lease) override;
  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override;
  void start_barrier(std::uint64_t ticket, const BufferLease& lease) override;
  void finish(std::uint64_t ticket) override;
  std::unique_ptr<Communicator> split(const Subset& subset) override;
  /// Calls MPI_Abort, as nothing else ends the pending operations of other processes.
  void abort(std::string_view reason) noexcept override;

 private:
  template <typename Start>
  void begin(std::uint64_t ticket, const BufferLease& lease, const Start& start);
  [[noreturn]] void give_up(const MpiOperation& operation, const std::string& reason);
  bool heartbeat_arrived() const;
  /// Returns the ranks that do not respond.
  std::vector<int> probe_peers(std::uint64_t ticket);

  MpiHandle collectives_, heartbeats_;
  std::int64_t max_count_;
  std::vector<std::unique_ptr<MpiOperation>> operations_;
};

}  // namespace shampoo
