// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/allgatherv.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/store/synchronized_store.h"
#include "distributor/transports/transport.h"

namespace shampoo {

/// Settings that a Gloo communicator shares with its subsets.
struct GlooSettings {
  std::shared_ptr<LockedStore> store;
  std::string store_server;  ///< see GlooOptions
  std::shared_ptr<gloo::transport::Device> device;
  std::string host;    ///< equal for ranks of the same host
  std::string prefix;  ///< of this communicator's keys in the store
  std::chrono::milliseconds deadline = {};
};

/// Gloo's collectives, which block: each has completed on this rank when start_*() returns. Gloo
/// applies the deadline to each message of a collective. Repeating an all_gather with the same
/// arguments does not allocate here; other collectives build their options on every call.
class GlooTransport final : public CollectiveTransport {
 public:
  GlooTransport(const RankInfo& info, GlooSettings settings, FailureRegistry registry,
                std::shared_ptr<gloo::Context> context)
      : CollectiveTransport(info),
        settings_(std::move(settings)),
        registry_(std::move(registry)),
        context_(std::move(context)) {}

  std::string description() const override;
  void set_deadline(std::chrono::milliseconds deadline) override;
  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease&) override;
  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease&) override;
  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override;
  void start_barrier(std::uint64_t ticket, const BufferLease&) override;
  std::unique_ptr<Communicator> split(const Subset& subset) override;
  void abort(std::string_view reason) noexcept override;

 private:
  template <typename Body>
  void run(const Body& body);
  void close() noexcept;

  /// The previous all_gather: the exchange of every step repeats its arguments.
  struct Gather {
    void* data;
    std::vector<std::int64_t> counts;
    gloo::AllgathervOptions options;
  };

  GlooSettings settings_;
  FailureRegistry registry_;
  std::shared_ptr<gloo::Context> context_;
  std::optional<Gather> gather_;
};

/// Connects to the other ranks. A negative `local_rank` is replaced by the number of lower ranks
/// on the same host. Collective.
std::unique_ptr<Communicator> connect_gloo(RankInfo info, const GlooSettings& settings);

}  // namespace shampoo
