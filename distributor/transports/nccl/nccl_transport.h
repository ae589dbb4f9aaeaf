// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/transports/nccl/nccl_api.h"
#include "distributor/transports/nccl/nccl_handle.h"
#include "distributor/transports/nccl/watchdog.h"
#include "distributor/transports/transport.h"

namespace shampoo {

struct NcclResources {
  std::shared_ptr<NcclApi> api = {};
  std::unique_ptr<NcclHandle> handle = {};
  std::vector<std::string> hosts = {};  ///< of every rank
  std::optional<FailureRegistry> registry = {};
  std::shared_ptr<Communicator> host = {};  ///< aborted with this communicator; may be null
  std::chrono::milliseconds deadline = std::chrono::minutes(10);
};

std::unique_ptr<Communicator> make_nccl_communicator(int rank, NcclResources resources);

/// NCCL's collectives, one launch each, on an internal stream that events order before and after
/// the stream of the lease.
///
/// Parts of equal size are gathered in place by ncclAllGather; otherwise their owners broadcast
/// them in place, in one group. Padding would need another buffer and send the largest size for
/// every rank. Point-to-point messages would cross the network once per rank of another host,
/// whereas a broadcast crosses it once per host.
class NcclTransport final : public CollectiveTransport {
 public:
  NcclTransport(int rank, NcclResources resources);
  /// Waits for pending collectives, up to the deadline.
  ~NcclTransport() override;

  std::string description() const override { return api_.description(); }
  void set_deadline(std::chrono::milliseconds deadline) override;
  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease& lease) override;
  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease& lease) override;
  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease& lease) override;
  void start_barrier(std::uint64_t ticket, const BufferLease& lease) override;
  void finish(std::uint64_t ticket) override;
  std::unique_ptr<Communicator> split(const Subset& subset) override;
  void abort(std::string_view reason) noexcept override;
  void gather_on_host(void* data, std::int64_t bytes) override;
  std::shared_ptr<Reducer> make_reducer() override;
  std::shared_ptr<const void> prepare(void* data, std::int64_t bytes) override;
  void watch(StreamRef stream) override;

 private:
  using Comm = NcclApi::Comm;

  template <typename Enqueue>
  void begin(std::uint64_t ticket, std::string_view name, const BufferLease& lease,
             const Enqueue& enqueue);
  template <typename Body>
  void guard(std::uint64_t ticket, std::string_view name, const Body& body);
  void on_failure(std::uint64_t ticket, std::string_view name, const std::string& error) noexcept;
  NcclHandle::Clock::time_point end() const { return NcclHandle::Clock::now() + deadline(); }

  NcclResources resources_;
  NcclApi& api_;
  NcclApi::Stream stream_ = nullptr;
  void* barrier_byte_ = nullptr;
  std::mutex failing_;
  std::optional<Watchdog> watchdog_;  ///< destroyed first
};

}  // namespace shampoo
