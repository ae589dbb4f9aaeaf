// SPDX-License-Identifier: Apache-2.0
#include <future>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "distributor/rendezvous/failure_registry.h"
#include "distributor/rendezvous/store_gather.h"
#include "distributor/system/failure_timeout.h"
#include "distributor/system/host_name.h"
#include "distributor/system/sigpipe_guard.h"
#include "distributor/system/thread_without_signals.h"
#include "distributor/system/time_left.h"
#include "distributor/transports/gloo/gloo_transport.h"
#include "distributor/transports/transport.h"

namespace shampoo {

namespace {

using std::chrono::milliseconds;

/// Closes a mesh at a given time, so that connecting ends then.
class TimeLimit {
 public:
  TimeLimit(GlooMesh& mesh, BoundedStore::Clock::time_point end)
      : thread_(thread_without_signals([&mesh, end, done = done_.get_future()] {
          const SigpipeGuard no_sigpipe;
          if (done.wait_until(end) == std::future_status::timeout) mesh.close();
        })) {}
  ~TimeLimit() {
    done_.set_value();
    thread_.join();
  }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::promise<void> done_;
  std::thread thread_;
};

std::unique_ptr<GlooMesh> make_mesh(const RankInfo& info, GlooSettings& settings,
                                    milliseconds timeout) {
  try {
    if (!settings.listener) settings.listener = gloo_module().listen(settings.address);
    return settings.listener->make_mesh(info.rank, info.size, timeout);
  } catch (const std::exception& error) {
    throw std::runtime_error("rank " + std::to_string(info.rank) + " cannot listen at " +
                             settings.address + ": " + error.what());
  }
}

/// Tells those that wait for addresses why they do not come.
void end_gather(StoreGather& gather, const std::string& error) {
  try {
    gather.publish({.error = error});
  } catch (const CommunicationError&) {  // diagnose() says so
  }
}

/// Each rank enters its addresses, and reads those of 2 log2(n) others.
void connect(GlooMesh& mesh, int rank, const GlooSettings& settings, StoreGather& gather,
             BoundedStore::Clock::time_point end) {
  gather.claim(rank, mesh.addresses());
  gather.arrive();
  const GatherResult result = gather.wait(end);
  if (!result.error.empty()) throw std::runtime_error(result.error);
  result.require_all_ranks(settings.deadline);
  std::map<int, std::string> addresses;
  for (const int peer : mesh.near_ranks()) addresses[peer] = gather.record(peer);
  const TimeLimit limit(mesh, end);
  mesh.connect(addresses);
}

/// Collective.
int gather_local_rank(GlooMesh& mesh, const RankInfo& info, const std::string& host) {
  std::vector<std::uint64_t> hosts(static_cast<std::size_t>(info.size));
  hosts[info.rank] = host_id(host);
  if (info.size > 1)
    mesh.all_gather(hosts.data(), std::vector<std::int64_t>(hosts.size(), sizeof hosts.front()), 0);
  return local_rank_of(info.rank, hosts);
}

}  // namespace

std::unique_ptr<Communicator> connect_gloo(RankInfo info, GlooSettings settings,
                                           std::chrono::steady_clock::time_point end) {
  constexpr milliseconds least(1);
  FailureRegistry registry(settings.store, settings.prefix, settings.store_server, info.rank,
                           info.size);
  BoundedStore store(settings.store, end);
  StoreGather gather(store, settings.prefix + "/address", info.size, StoreGather::none);
  const milliseconds longest = before_failure_detection(time_left(end, least));
  const auto end_of_connecting = BoundedStore::Clock::now() + longest;
  std::unique_ptr<CollectiveTransport> transport;
  try {
    const SigpipeGuard no_sigpipe;  // inherited by the listener's thread
    std::unique_ptr<GlooMesh> mesh = make_mesh(info, settings, longest);
    if (info.size > 1) connect(*mesh, info.rank, settings, gather, end_of_connecting);
    if (info.local_rank < 0) info.local_rank = gather_local_rank(*mesh, info, settings.host);
    transport = make_gloo_transport(info, settings, registry, std::move(mesh));
  } catch (const CommunicationError&) {
    throw;  // of the store, or about ranks that did not come
  } catch (const std::exception& error) {
    end_gather(gather, error.what());
    throw registry.diagnose(error.what(), longest);
  }
  // Gloo fails to connect to a rank that has closed already. After a collective a rank may close at
  // once: by then it has read what its peers sent, and they can read what it sent.
  transport->set_deadline(before_failure_detection(time_left(end, least)));
  transport->start_barrier({.operation = "connect"}, {});
  transport->set_deadline(settings.deadline);
  try {
    if (info.size > 1) gather.remove_keys();
  } catch (const CommunicationError&) {
    // What remains does no harm, and the rank that serves the store may be gone.
  }
  return std::make_unique<Communicator>(std::move(transport));
}

}  // namespace shampoo
