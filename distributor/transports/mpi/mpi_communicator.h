// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/transports/mpi/mpi_operation.h"

namespace shampoo {

/// A duplicate whose errors are returned. Collective. Throws CommunicationError where the ranks do
/// not come before the deadline.
MPI_Comm duplicate_in_time(MPI_Comm original, std::chrono::milliseconds deadline);

/// Owns an MPI communicator that nobody else uses, or leaves it to MPI where something is pending.
class MpiHandle {
 public:
  explicit MpiHandle(MPI_Comm communicator) : communicator_(communicator) {}
  ~MpiHandle();
  MpiHandle(const MpiHandle&) = delete;
  MpiHandle& operator=(const MpiHandle&) = delete;

  MPI_Comm get() const { return communicator_; }
  void leave() { communicator_ = MPI_COMM_NULL; }

 private:
  MPI_Comm communicator_;
};

/// Collectives of MPI, polled until the deadline.
///
/// MPI does not report that a peer is dead or stopped. A rank that gives up therefore calls the
/// roll: it sends a message to all others, who give up on receiving it and send theirs; those who
/// are not heard of within the grace of the deadline, see failure_detection_timeout(), are missing.
class MpiCommunicator final : public Communicator {
 public:
  /// Takes over a duplicate. Collective. See MpiOperation for `most_bytes`.
  explicit MpiCommunicator(MPI_Comm duplicate, std::int64_t most_bytes = INT_MAX);
  ~MpiCommunicator() override;
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::string description() const override;

 private:
  using Counts = std::span<const std::int64_t>;

  void start_all_gather(std::uint64_t ticket, void* everyone, Counts counts,
                        const BufferLease& loan) override;
  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& loan) override;
  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease& loan) override;
  void start_barrier(std::uint64_t ticket, const BufferLease& loan) override;
  void finish(std::uint64_t ticket) override;
  std::unique_ptr<Communicator> make_split(std::span<const Member> members, int color,
                                           std::uint64_t index) override;
  void tear_down(std::string_view reason) noexcept override;

  template <typename Start>
  void begin(std::uint64_t ticket, const BufferLease& loan, const Start& start);
  [[noreturn]] void give_up(const MpiOperation& operation, const std::string& reason);
  bool roll_was_called() const;
  /// Ranks that were not heard of.
  std::vector<int> call_roll(std::uint64_t ticket);

  MpiHandle collectives_, roll_;
  std::int64_t most_bytes_;
  std::vector<std::unique_ptr<MpiOperation>> operations_;
};

}  // namespace shampoo
