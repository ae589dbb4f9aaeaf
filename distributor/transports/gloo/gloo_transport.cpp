// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_transport.h"

#include <gloo/allgatherv.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "distributor/rank_list.h"
#include "distributor/rendezvous/failure_registry.h"
#include "distributor/rendezvous/store_gather.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/gloo/gloo_mesh.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Gloo requires an address even for empty buffers.
char empty_buffer = 0;

char* address(void* data) { return data ? static_cast<char*>(data) : &empty_buffer; }

/// Gloo pairs messages by kind of collective and tag, and terminates the process if a message is
/// larger than its receiver. The lower half of the tag tells collectives apart, the upper half
/// their sizes, so that ranks with different sizes miss the deadline instead.
std::uint32_t tag(std::uint64_t ticket, std::span<const std::int64_t> sizes = {}) {
  return static_cast<std::uint32_t>((grouping::hash(std::as_bytes(sizes)) << 16) |
                                    (ticket & 0xffff));
}

/// Gloo's collectives, which block: each has completed on this rank when start_*() returns. Gloo
/// applies the deadline to each message of a collective. Repeating an all_gather with the same
/// arguments does not allocate here; other collectives build their options on every call.
class GlooTransport final : public CollectiveTransport {
 public:
  GlooTransport(const RankInfo& info, GlooSettings settings, FailureRegistry registry,
                std::shared_ptr<GlooMesh> context)
      : CollectiveTransport(info),
        settings_(std::move(settings)),
        registry_(std::move(registry)),
        context_(std::move(context)) {}

  std::string description() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
           "." + std::to_string(GLOO_VERSION_PATCH) + ", TCP, " + settings_.host;
  }

  void set_deadline(milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    settings_.deadline = deadline;
    context_->setTimeout(deadline);
    gather_.reset();  // its options hold the previous deadline
    settings_.store->set_deadline(deadline);
  }

  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease&) override {
    if (size() == 1) return;
    run([&] {
      if (!gather_ || gather_->data != data || !std::ranges::equal(gather_->counts, counts)) {
        gather_ = Gather{data, std::vector<std::int64_t>(counts.begin(), counts.end()),
                         gloo::AllgathervOptions(context_)};
        gather_->options.setOutput(address(data),
                                   std::vector<std::size_t>(counts.begin(), counts.end()));
      }
      gather_->options.setTag(tag(ticket, counts));
      gloo::allgatherv(gather_->options);
    });
  }

  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease&) override {
    if (size() == 1) {
      if (send_counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(send_counts[0]));
      return;
    }
    run([&] {
      context_->connect_all(deadline());
      gloo::AlltoallvOptions options(context_);
      options.setTag(tag(ticket));
      options.setInput(address(const_cast<void*>(send)),
                       std::vector<std::int64_t>(send_counts.begin(), send_counts.end()));
      options.setOutput(address(receive),
                        std::vector<std::int64_t>(receive_counts.begin(), receive_counts.end()));
      gloo::alltoallv(options);
    });
  }

  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override {
    if (size() == 1) return;
    run([&] {
      gloo::BroadcastOptions options(context_);
      options.setTag(tag(ticket, {{bytes, root}}));
      options.setRoot(root);
      options.setOutput(address(data), static_cast<std::size_t>(bytes));
      gloo::broadcast(options);
    });
  }

  void start_barrier(std::uint64_t ticket, const BufferLease&) override {
    if (size() == 1) return;
    run([&] {
      gloo::BarrierOptions options(context_);
      options.setTag(tag(ticket));
      gloo::barrier(options);
    });
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    if (subset.members.empty()) return nullptr;
    GlooSettings settings = settings_;
    settings.prefix +=
        "/split/" + std::to_string(subset.index) + "/" + std::to_string(subset.color);
    return connect_gloo(
        {.rank = subset.rank, .size = static_cast<int>(subset.members.size()), .local_rank = -1},
        std::move(settings));
  }

  void abort(std::string_view reason) noexcept override {
    registry_.publish_abort(reason, deadline());
    close();
  }

 private:
  /// Runs one blocking collective. After an error the connections are in an unknown state.
  template <typename Body>
  void run(const Body& body) {
    const SigpipeGuard no_sigpipe;
    try {
      body();
    } catch (const std::exception& error) {
      const std::string message = error.what();
      close();
      throw registry_.diagnose(message, deadline());
    }
  }

  void close() noexcept {
    const SigpipeGuard no_sigpipe;
    if (size() > 1) context_->close();
  }

  /// The previous all_gather: the exchange of every step repeats its arguments.
  struct Gather {
    void* data;
    std::vector<std::int64_t> counts;
    gloo::AllgathervOptions options;
  };

  GlooSettings settings_;
  FailureRegistry registry_;
  std::shared_ptr<GlooMesh> context_;
  std::optional<Gather> gather_;
};

}  // namespace

namespace {

/// Each rank enters its addresses, and reads those of 2 log2(n) others.
void connect(GlooMesh& mesh, const GlooSettings& settings, StoreGather& gather,
             BoundedStore::Clock::time_point end) {
  gather.claim(mesh.rank, mesh.addresses());
  gather.arrive();
  GatherResult result = gather.wait(end);
  if (!result.error.empty()) throw CommunicationError(result.error);
  if (!result.ready()) {
    const std::string ranks = rank_list(result.missing_ranks);
    throw CommunicationError(ranks + " did not come within " + seconds_text(settings.deadline),
                             std::move(result.missing_ranks));
  }
  std::map<int, std::string> addresses;
  for (const int peer : GlooMesh::near_ranks(mesh.rank, mesh.size))
    addresses[peer] = gather.record(peer);
  mesh.connect(addresses);
}

/// The number of lower ranks on the same host. Collective.
int count_lower_ranks(const std::shared_ptr<GlooMesh>& mesh, const std::string& host) {
  std::vector<std::uint64_t> hosts(static_cast<std::size_t>(mesh->size));
  const auto self = hosts.begin() + mesh->rank;
  *self = grouping::hash(std::as_bytes(std::span(host)));
  if (mesh->size > 1) {
    gloo::AllgathervOptions options(mesh);
    options.setOutput(hosts.data(), std::vector<std::size_t>(hosts.size(), 1));
    gloo::allgatherv(options);
  }
  return static_cast<int>(std::count(hosts.begin(), self, *self));
}

}  // namespace

std::unique_ptr<Communicator> connect_gloo(RankInfo info, GlooSettings settings) {
  const auto end = BoundedStore::Clock::now() + settings.deadline;
  settings.store->set_deadline(settings.deadline);
  FailureRegistry registry(settings.store, settings.prefix, settings.store_server, info.rank,
                           info.size);
  BoundedStore store(settings.store, end);
  StoreGather gather(store, settings.prefix + "/address", info.size, StoreGather::none);
  std::shared_ptr<GlooMesh> mesh;
  try {
    const SigpipeGuard no_sigpipe;
    mesh = std::make_shared<GlooMesh>(info.rank, info.size, settings.device, settings.deadline);
    if (info.size > 1) connect(*mesh, settings, gather, end);
    if (info.local_rank < 0) info.local_rank = count_lower_ranks(mesh, settings.host);
  } catch (const CommunicationError&) {
    throw;  // of the store, or about ranks that did not come
  } catch (const std::exception& error) {
    throw registry.diagnose(error.what(), settings.deadline);
  }
  auto transport =
      std::make_unique<GlooTransport>(info, settings, std::move(registry), std::move(mesh));
  transport->set_deadline(settings.deadline);
  // Gloo fails to connect to a rank that has closed already. After a collective a rank may close at
  // once: by then it has read what its peers sent, and they can read what it sent.
  transport->start_barrier(0, {});
  try {
    if (info.size > 1) gather.remove_keys();
  } catch (const CommunicationError&) {
    // What remains does no harm, and the rank that serves the store may be gone.
  }
  return std::make_unique<Communicator>(std::move(transport));
}

}  // namespace shampoo
