// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_transport.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/collective_monitor.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// What Gloo waits longer than the deadline, which the monitor keeps.
constexpr milliseconds margin{1000};

/// Gloo pairs messages by kind of collective and tag, and terminates the process if a message is
/// larger than its receiver. Ranks in different calls have different tags, so that their messages
/// never meet.
std::uint64_t wide_tag(const CollectiveCall& call, std::int64_t bytes = 0) {
  const std::array words{call.ticket, call.signature, static_cast<std::uint64_t>(bytes)};
  return grouping::hash(std::as_bytes(std::span(words)));
}

std::uint32_t tag(const CollectiveCall& call) { return static_cast<std::uint32_t>(wide_tag(call)); }

/// Gloo's collectives, which block: each has completed on this rank when start_*() returns. Gloo
/// itself applies the deadline to each message; the monitor applies it to the collective.
class GlooTransport final : public CollectiveTransport {
 public:
  GlooTransport(const RankInfo& info, GlooSettings settings, FailureRegistry registry,
                std::unique_ptr<GlooMesh> mesh)
      : CollectiveTransport(info),
        settings_(std::move(settings)),
        registry_(std::move(registry)),
        mesh_(std::move(mesh)) {
    if (info.size > 1) monitor_.emplace(registry_, [this] { close(); });
  }

  std::string description() const override {
    const auto [major, minor, patch] = gloo_module().gloo_version;
    return "Gloo " + std::to_string(major) + "." + std::to_string(minor) + "." +
           std::to_string(patch) + ", TCP, " + settings_.host;
  }

  void set_deadline(milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    settings_.deadline = deadline;
    mesh_->set_timeout(deadline + margin);
  }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] { mesh_->all_gather(data, counts, tag(call)); });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease&) override {
    if (size() == 1) {
      if (send_counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(send_counts[0]));
      return;
    }
    run(call, [&] {
      mesh_->all_to_all(send, send_counts, slots(call, send_counts), receive, receive_counts,
                        slots(call, receive_counts));
    });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] { mesh_->broadcast(data, bytes, root, tag(call)); });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] { mesh_->barrier(tag(call)); });
  }

  std::unique_ptr<Communicator> split(const Subset& subset) override {
    if (subset.members.empty()) return nullptr;
    GlooSettings settings = settings_;
    settings.prefix +=
        "/split/" + std::to_string(subset.index) + "/" + std::to_string(subset.color);
    return connect_gloo(
        {.rank = subset.rank, .size = static_cast<int>(subset.members.size()), .local_rank = -1},
        std::move(settings), subset.end);
  }

  void abort(std::string_view reason) noexcept override {
    registry_.publish_abort(reason, deadline());
    close();
  }

 private:
  /// Runs one blocking collective. After an error the connections are in an unknown state.
  template <typename Body>
  void run(const CollectiveCall& call, const Body& body) {
    const SigpipeGuard no_sigpipe;
    monitor_->begin(call, deadline());
    try {
      body();
      monitor_->end();
    } catch (const std::exception& error) {
      monitor_->end();
      const std::string reason = monitor_->reason();
      const std::string message = reason.empty() ? error.what() : reason;
      close();
      throw registry_.diagnose(message, deadline(), call);
    }
  }

  /// The number of bytes is part of each message's slot. Gloo's own collectives have smaller slots.
  static std::vector<std::uint64_t> slots(const CollectiveCall& call, Counts counts) {
    std::vector<std::uint64_t> all;
    for (const std::int64_t bytes : counts)
      all.push_back(wide_tag(call, bytes) | std::uint64_t{1} << 63);
    return all;
  }

  void close() noexcept {
    const SigpipeGuard no_sigpipe;
    if (size() > 1) mesh_->close();
  }

  GlooSettings settings_;
  FailureRegistry registry_;
  std::unique_ptr<GlooMesh> mesh_;
  std::optional<CollectiveMonitor> monitor_;  ///< of several ranks; destroyed first
};

}  // namespace

std::unique_ptr<CollectiveTransport> make_gloo_transport(const RankInfo& info,
                                                         GlooSettings settings,
                                                         FailureRegistry registry,
                                                         std::unique_ptr<GlooMesh> mesh) {
  return std::make_unique<GlooTransport>(info, std::move(settings), std::move(registry),
                                         std::move(mesh));
}

}  // namespace shampoo
