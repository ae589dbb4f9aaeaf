// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_transport.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Gloo pairs messages by kind of collective and tag, and terminates the process if a message is
/// larger than its receiver. The lower half of the tag tells collectives apart, the upper half
/// their sizes, so that ranks with different sizes miss the deadline instead.
std::uint32_t tag(std::uint64_t ticket, std::span<const std::int64_t> sizes = {}) {
  return static_cast<std::uint32_t>((grouping::hash(std::as_bytes(sizes)) << 16) |
                                    (ticket & 0xffff));
}

/// Gloo's collectives, which block: each has completed on this rank when start_*() returns. Gloo
/// applies the deadline to each message of a collective.
class GlooTransport final : public CollectiveTransport {
 public:
  GlooTransport(const RankInfo& info, GlooSettings settings, FailureRegistry registry,
                std::unique_ptr<GlooMesh> mesh)
      : CollectiveTransport(info),
        settings_(std::move(settings)),
        registry_(std::move(registry)),
        mesh_(std::move(mesh)) {}

  std::string description() const override {
    const auto [major, minor, patch] = gloo_module().gloo_version;
    return "Gloo " + std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(patch) + ", TCP, " + settings_.host;
  }

  void set_deadline(milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    settings_.deadline = deadline;
    mesh_->set_deadline(deadline);
    settings_.store->set_deadline(deadline);
  }

  void start_all_gather(std::uint64_t ticket, void* data, Counts counts,
                        const BufferLease&) override {
    if (size() == 1) return;
    run([&] { mesh_->all_gather(data, counts, tag(ticket, counts)); });
  }

  void start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts, void* receive,
                        Counts receive_counts, const BufferLease&) override {
    if (size() == 1) {
      if (send_counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(send_counts[0]));
      return;
    }
    run([&] { mesh_->all_to_all(send, send_counts, receive, receive_counts, tag(ticket)); });
  }

  void start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override {
    if (size() == 1) return;
    run([&] { mesh_->broadcast(data, bytes, root, tag(ticket, {{bytes, root}})); });
  }

  void start_barrier(std::uint64_t ticket, const BufferLease&) override {
    if (size() == 1) return;
    run([&] { mesh_->barrier(tag(ticket)); });
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    if (subset.members.empty()) return nullptr;
    GlooSettings settings = settings_;
    settings.prefix +=
        "/split/" + std::to_string(subset.index) + "/" + std::to_string(subset.color);
    settings.hosts.clear();
    for (const auto& member : subset.members)
      settings.hosts.push_back(settings_.hosts[member.rank]);
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
    if (size() > 1) mesh_->close();
  }

  GlooSettings settings_;
  FailureRegistry registry_;
  std::unique_ptr<GlooMesh> mesh_;
};

}  // namespace

std::unique_ptr<Communicator> connect_gloo(RankInfo info, GlooSettings settings) {
  const auto end = std::chrono::steady_clock::now() + settings.deadline;
  settings.store->set_deadline(settings.deadline);
  FailureRegistry registry(settings.store, settings.prefix, settings.store_server, info.rank,
                           info.size);
  if (settings.hosts.empty()) settings.hosts = registry.barrier(settings.host, settings.deadline);
  if (info.local_rank < 0) {
    const auto self = settings.hosts.begin() + info.rank;
    info.local_rank = static_cast<int>(std::count(settings.hosts.begin(), self, *self));
  }
  std::unique_ptr<GlooMesh> mesh;
  try {
    const SigpipeGuard no_sigpipe;
    mesh = settings.listener->connect({.rank = info.rank,
                                       .size = info.size,
                                       .store = settings.store,
                                       .prefix = settings.prefix + "/address/",
                                       .deadline = settings.deadline,
                                       .end = end});
  } catch (const std::exception& error) {
    throw registry.diagnose(error.what(), settings.deadline);
  }
  GlooMesh& connected = *mesh;
  auto transport =
      std::make_unique<GlooTransport>(info, settings, std::move(registry), std::move(mesh));
  transport->set_deadline(settings.deadline);
  // Gloo fails to connect to a rank that has closed already. After a collective a rank may close at
  // once: by then it has read what its peers sent, and they can read what it sent.
  transport->start_barrier(0, {});
  connected.remove_keys();
  return std::make_unique<Communicator>(std::move(transport));
}

}  // namespace shampoo
