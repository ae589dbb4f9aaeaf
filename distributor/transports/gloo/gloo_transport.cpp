// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_transport.h"

#include <gloo/allgatherv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/collective_monitor.h"
#include "distributor/transports/gloo/gloo_mesh.h"
#include "distributor/transports/transport.h"
#include "grouping/hash.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// What Gloo waits longer than the deadline, which the monitor keeps.
constexpr milliseconds margin{1000};

/// Gloo requires an address even for empty buffers.
char empty_buffer = 0;

char* address(void* data) { return data ? static_cast<char*>(data) : &empty_buffer; }

/// Gloo pairs messages by kind of collective and tag, and terminates the process if a message is
/// larger than its receiver. Ranks in different calls have different tags, so that their messages
/// never meet.
std::uint64_t wide_tag(const CollectiveCall& call, std::int64_t bytes = 0) {
  const std::array words{call.ticket, call.signature, static_cast<std::uint64_t>(bytes)};
  return grouping::hash(std::as_bytes(std::span(words)));
}

std::uint32_t tag(const CollectiveCall& call) { return static_cast<std::uint32_t>(wide_tag(call)); }

/// Gloo's collectives, which block: each has completed on this rank when start_*() returns. Gloo
/// itself applies the deadline to each message; the monitor applies it to the collective. Repeating
/// an all_gather with the same arguments does not allocate here; other collectives build their
/// options on every call.
class GlooTransport final : public CollectiveTransport {
 public:
  GlooTransport(const RankInfo& info, GlooSettings settings, FailureRegistry registry,
                std::shared_ptr<GlooMesh> context)
      : CollectiveTransport(info),
        settings_(std::move(settings)),
        registry_(std::move(registry)),
        context_(std::move(context)) {
    if (info.size > 1) monitor_.emplace(registry_, [this] { close(); });
  }

  std::string description() const override {
    return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
           "." + std::to_string(GLOO_VERSION_PATCH) + ", TCP, " + settings_.host;
  }

  void set_deadline(milliseconds deadline) override {
    CollectiveTransport::set_deadline(deadline);
    settings_.deadline = deadline;
    context_->setTimeout(deadline + margin);
    gather_.reset();  // its options hold the previous deadline
    settings_.store->set_deadline(deadline);
  }

  void start_all_gather(const CollectiveCall& call, void* data, Counts counts,
                        const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] {
      if (!gather_ || gather_->data != data || !std::ranges::equal(gather_->counts, counts)) {
        gather_ = Gather{data, std::vector<std::int64_t>(counts.begin(), counts.end()),
                         gloo::AllgathervOptions(context_)};
        gather_->options.setOutput(address(data),
                                   std::vector<std::size_t>(counts.begin(), counts.end()));
      }
      gather_->options.setTag(tag(call));
      gloo::allgatherv(gather_->options);
    });
  }

  void start_all_to_all(const CollectiveCall& call, const void* send, Counts send_counts,
                        void* receive, Counts receive_counts, const BufferLease&) override {
    if (size() == 1) {
      if (send_counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(send_counts[0]));
      return;
    }
    run(call, [&] {
      context_->connect_all(context_->getTimeout());
      exchange(call, static_cast<const char*>(send), send_counts, static_cast<char*>(receive),
               receive_counts);
    });
  }

  void start_broadcast(const CollectiveCall& call, void* data, std::int64_t bytes, int root,
                       const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] {
      gloo::BroadcastOptions options(context_);
      options.setTag(tag(call));
      options.setRoot(root);
      options.setOutput(address(data), static_cast<std::size_t>(bytes));
      gloo::broadcast(options);
    });
  }

  void start_barrier(const CollectiveCall& call, const BufferLease&) override {
    if (size() == 1) return;
    run(call, [&] {
      gloo::BarrierOptions options(context_);
      options.setTag(tag(call));
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

  /// As gloo::alltoallv(), but the number of bytes is part of each message's slot.
  void exchange(const CollectiveCall& call, const char* send, Counts send_counts, char* receive,
                Counts receive_counts) {
    const std::vector<std::size_t> from_begin = begins(send_counts),
                                   to_begin = begins(receive_counts);
    const auto in =
        context_->createUnboundBuffer(address(const_cast<char*>(send)), from_begin.back());
    const auto out = context_->createUnboundBuffer(address(receive), to_begin.back());
    if (const std::int64_t own = send_counts[rank()]; own > 0)
      std::memcpy(receive + to_begin[rank()], send + from_begin[rank()],
                  static_cast<std::size_t>(own));
    for (int i = 1; i < size(); ++i) {
      const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
      out->recv(from, slot(call, receive_counts[from]), to_begin[from],
                static_cast<std::size_t>(receive_counts[from]));
      in->send(to, slot(call, send_counts[to]), from_begin[to],
               static_cast<std::size_t>(send_counts[to]));
    }
    for (int i = 1; i < size(); ++i) {
      in->waitSend(context_->getTimeout());
      out->waitRecv(context_->getTimeout());
    }
  }

  /// Where the part of each rank begins, then the sum.
  static std::vector<std::size_t> begins(Counts counts) {
    std::vector<std::size_t> all{0};
    for (const std::int64_t count : counts)
      all.push_back(all.back() + static_cast<std::size_t>(count));
    return all;
  }

  /// Gloo's own collectives have smaller slots.
  static std::uint64_t slot(const CollectiveCall& call, std::int64_t bytes) {
    return wide_tag(call, bytes) | std::uint64_t{1} << 63;
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
  std::optional<CollectiveMonitor> monitor_;  ///< of several ranks; destroyed first
};

}  // namespace

std::unique_ptr<CollectiveTransport> make_gloo_transport(const RankInfo& info,
                                                         GlooSettings settings,
                                                         FailureRegistry registry,
                                                         std::shared_ptr<GlooMesh> mesh) {
  return std::make_unique<GlooTransport>(info, std::move(settings), std::move(registry),
                                         std::move(mesh));
}

}  // namespace shampoo
