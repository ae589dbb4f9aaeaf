// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gloo/allgatherv.h>
#include <gloo/rendezvous/context.h>
#include <gloo/transport/device.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/store/synchronized_store.h"

namespace shampoo {

/// What the ranks of a Gloo communicator and of its parts share.
struct GlooSetup {
  std::shared_ptr<SynchronizedStore> store;
  std::string store_server;  ///< for messages, see GlooOptions
  std::shared_ptr<gloo::transport::Device> device;
  std::string host;    ///< tells whether ranks are on the same host
  std::string prefix;  ///< of the keys of this communicator
  std::chrono::milliseconds deadline = {};
  std::vector<std::string> hosts = {};  ///< by rank; empty: exchanged first
};

/// Collectives of Gloo, which block: they have completed, on this rank, when they were started.
/// Gloo applies its time limit to every message of a collective. A gather of the same arrays as the
/// one before allocates nothing here; the other collectives build their options for every call.
class GlooCommunicator final : public Communicator {
 public:
  /// Connected to all ranks of the board.
  GlooCommunicator(const RankInfo& standing, GlooSetup setup, FailureRegistry board,
                   std::shared_ptr<gloo::Context> context)
      : Communicator(standing),
        setup_(std::move(setup)),
        board_(std::move(board)),
        context_(std::move(context)) {}

  std::string description() const override;

 private:
  using Counts = std::span<const std::int64_t>;

  void start_all_gather(std::uint64_t ticket, void* everyone, Counts counts,
                        const BufferLease&) override;
  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease&) override;
  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override;
  void start_barrier(std::uint64_t ticket, const BufferLease&) override;
  void finish(std::uint64_t) override {}
  std::unique_ptr<Communicator> make_split(std::span<const Member> members, int color,
                                           std::uint64_t index) override;
  void tear_down(std::string_view reason) noexcept override;
  void deadline_changed() override;

  template <typename Body>
  void run(const Body& body);
  void close() noexcept;

  /// The gather of the call before: the exchange of every step has the same arrays.
  struct Gather {
    void* everyone;
    std::vector<std::int64_t> counts;
    gloo::AllgathervOptions options;
  };

  GlooSetup setup_;
  FailureRegistry board_;
  std::shared_ptr<gloo::Context> context_;
  std::optional<Gather> gather_;
};

/// Connects the ranks. Collective. A `local_rank` below 0 is derived from the hosts.
std::unique_ptr<Communicator> connect_gloo(RankInfo standing, GlooSetup setup);

}  // namespace shampoo
