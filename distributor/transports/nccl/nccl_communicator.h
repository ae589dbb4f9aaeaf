// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_handle.h"
#include "distributor/transports/nccl/nccl_watchdog.h"

namespace shampoo {

/// What a communicator of NCCL is made of.
struct NcclSetup {
  std::shared_ptr<NcclCalls> calls = {};
  std::unique_ptr<NcclHandle> handle = {};
  std::vector<std::string> hosts = {};        ///< of every rank
  std::optional<FailureRegistry> board = {};  ///< where ranks hear of each other
  std::shared_ptr<Communicator> host = {};    ///< aborted with this one; may be null
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

/// Ranks of `hosts` before `rank` on the host of that rank.
int local_rank_in(std::span<const std::string> hosts, int rank);

/// Collectives of NCCL, each one launch on a stream of its own, which events tie to the stream of
/// the loan on both sides.
///
/// Parts of equal size are gathered in place by ncclAllGather. Others are broadcast in place by
/// their owners, all in one group: padding them would need another buffer and move the largest part
/// for every rank, and sending them from rank to rank would take every part over the network once
/// for each rank of the other host, a broadcast once for each host.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(int rank, NcclSetup setup);
  /// Waits for what is pending, at most the deadline.
  ~NcclCommunicator() override;
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  std::string description() const override { return calls_.description(); }
  std::shared_ptr<const void> prepare(void* memory, std::int64_t bytes) override;
  void watch(StreamRef stream) override;

 private:
  using Counts = std::span<const std::int64_t>;
  using Comm = NcclCalls::Comm;

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
  void gather_on_host(std::shared_ptr<void> everyone, std::int64_t bytes) override;
  std::shared_ptr<Reducer> make_summing() override;
  void tear_down(std::string_view reason) noexcept override;
  void deadline_changed() override;

  template <typename Enqueue>
  void begin(std::uint64_t ticket, std::string_view name, const BufferLease& loan,
             const Enqueue& enqueue);
  template <typename Body>
  void guarded(std::uint64_t ticket, std::string_view name, const Body& body);
  void lose(std::uint64_t ticket, std::string_view name, const std::string& fault) noexcept;
  NcclHandle::Clock::time_point end() const { return NcclHandle::Clock::now() + deadline(); }

  NcclSetup setup_;
  NcclCalls& calls_;
  NcclCalls::Stream stream_ = nullptr;
  void* byte_ = nullptr;                          ///< what barriers sum
  std::atomic<std::chrono::milliseconds> limit_;  ///< the deadline, for any thread
  std::mutex losing_;
  std::optional<NcclWatch> watch_;  ///< ends first
};

}  // namespace shampoo
