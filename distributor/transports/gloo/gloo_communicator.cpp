// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo_communicator.h"

#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>

#include <algorithm>
#include <cstring>

#include "distributor/system/sigpipe_guard.h"
#include "distributor/transports/gloo/gloo_rendezvous.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Gloo wants an address even for no bytes.
char nothing = 0;

char* address(void* data) { return data ? static_cast<char*>(data) : &nothing; }

std::uint32_t tag(std::uint64_t ticket) { return static_cast<std::uint32_t>(ticket); }

void connect(gloo::rendezvous::Context& context, std::shared_ptr<GlooRendezvous> rendezvous,
             std::shared_ptr<gloo::transport::Device> device) {
  const SigpipeGuard quiet;
#ifdef GLOO_SHARED_STORE
  context.connectFullMesh(std::move(rendezvous), device);
#else
  context.connectFullMesh(*rendezvous, device);
#endif
}

/// Ends all that the context's connections wait for, on this rank and on the others. Closing them
/// would leave this rank's own waiting; a wait that fails closes them and ends the waiting.
void poison(gloo::Context& context) noexcept {
  const SigpipeGuard quiet;
  try {
    context.createUnboundBuffer(&nothing, 1)->waitRecv(milliseconds(1));
  } catch (...) {  // as intended
  }
}

}  // namespace

std::unique_ptr<Communicator> connect_gloo(RankInfo standing, GlooSetup setup) {
  const auto end = std::chrono::steady_clock::now() + setup.deadline;
  setup.store->set_deadline(setup.deadline);
  FailureRegistry board(setup.store, setup.prefix, setup.store_server, standing.rank,
                        standing.size);
  if (setup.hosts.empty()) setup.hosts = board.barrier(setup.host, setup.deadline);
  if (standing.local_rank < 0) {
    const auto self = setup.hosts.begin() + standing.rank;
    standing.local_rank = static_cast<int>(std::count(setup.hosts.begin(), self, *self));
  }
  auto context = std::make_shared<gloo::rendezvous::Context>(standing.rank, standing.size);
  context->setTimeout(setup.deadline);
  if (standing.size > 1) try {
      const auto rendezvous =
          std::make_shared<GlooRendezvous>(setup.store, setup.prefix + "/address/", end);
      connect(*context, rendezvous, setup.device);
      rendezvous->remove_keys(standing.size);
    } catch (const std::exception& error) {
      throw board.diagnose(error.what(), setup.deadline);
    }
  const milliseconds deadline = setup.deadline;
  auto connected = std::make_unique<GlooCommunicator>(standing, std::move(setup), std::move(board),
                                                      std::move(context));
  connected->set_deadline(deadline);
  return connected;
}

std::string GlooCommunicator::description() const {
  return "Gloo " + std::to_string(GLOO_VERSION_MAJOR) + "." + std::to_string(GLOO_VERSION_MINOR) +
         "." + std::to_string(GLOO_VERSION_PATCH) + ", TCP, " + setup_.host;
}

void GlooCommunicator::deadline_changed() {
  setup_.deadline = deadline();
  context_->setTimeout(deadline());
  gather_.reset();  // its options keep the deadline before
  setup_.store->set_deadline(deadline());
}

/// One collective of Gloo. After an error the state of its connections is unknown.
template <typename Body>
void GlooCommunicator::run(const Body& body) {
  const SigpipeGuard quiet;
  try {
    body();
  } catch (const std::exception& error) {
    const std::string fault = error.what();
    close();
    throw board_.diagnose(fault, deadline());
  }
}

void GlooCommunicator::close() noexcept {
  if (size() > 1) poison(*context_);
}

void GlooCommunicator::start_all_gather(std::uint64_t ticket, void* everyone, Counts counts,
                                        const BufferLease&) {
  if (size() == 1) return;
  run([&] {
    if (!gather_ || gather_->everyone != everyone || !std::ranges::equal(gather_->counts, counts)) {
      gather_ = Gather{everyone, std::vector<std::int64_t>(counts.begin(), counts.end()),
                       gloo::AllgathervOptions(context_)};
      gather_->options.setOutput(address(everyone),
                                 std::vector<std::size_t>(counts.begin(), counts.end()));
    }
    gather_->options.setTag(tag(ticket));
    gloo::allgatherv(gather_->options);
  });
}

void GlooCommunicator::start_all_to_all(std::uint64_t ticket, const void* send, Counts send_counts,
                                        void* receive, Counts receive_counts, const BufferLease&) {
  if (size() == 1) {
    if (send_counts[0] > 0) std::memcpy(receive, send, static_cast<std::size_t>(send_counts[0]));
    return;
  }
  run([&] {
    gloo::AlltoallvOptions options(context_);
    options.setTag(tag(ticket));
    options.setInput(address(const_cast<void*>(send)),
                     std::vector<std::int64_t>(send_counts.begin(), send_counts.end()));
    options.setOutput(address(receive),
                      std::vector<std::int64_t>(receive_counts.begin(), receive_counts.end()));
    gloo::alltoallv(options);
  });
}

void GlooCommunicator::start_broadcast(std::uint64_t ticket, void* data, std::int64_t bytes,
                                       int root, const BufferLease&) {
  if (size() == 1) return;
  run([&] {
    gloo::BroadcastOptions options(context_);
    options.setTag(tag(ticket));
    options.setRoot(root);
    options.setOutput(address(data), static_cast<std::size_t>(bytes));
    gloo::broadcast(options);
  });
}

void GlooCommunicator::start_barrier(std::uint64_t ticket, const BufferLease&) {
  if (size() == 1) return;
  run([&] {
    gloo::BarrierOptions options(context_);
    options.setTag(tag(ticket));
    gloo::barrier(options);
  });
}

std::unique_ptr<Communicator> GlooCommunicator::make_split(std::span<const Member> members,
                                                           int color, std::uint64_t index) {
  if (members.empty()) return nullptr;
  const auto self = std::ranges::find(members, rank(), &Member::rank);
  GlooSetup setup = setup_;
  setup.prefix += "/split/" + std::to_string(index) + "/" + std::to_string(color);
  setup.hosts.clear();
  for (const Member& member : members) setup.hosts.push_back(setup_.hosts[member.rank]);
  return connect_gloo({.rank = static_cast<int>(self - members.begin()),
                       .size = static_cast<int>(members.size()),
                       .local_rank = -1},
                      std::move(setup));
}

void GlooCommunicator::tear_down(std::string_view reason) noexcept {
  board_.publish_abort(reason, deadline());
  close();
}

}  // namespace shampoo
