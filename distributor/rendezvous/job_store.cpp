// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/job_store.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <tuple>

#include "distributor/communicator.h"
#include "distributor/system/time_left.h"

namespace shampoo::rendezvous {
namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Null if the port is in use.
std::shared_ptr<StoreServer> start_server(const Detected& detected) {
  // Each rank has a connection or two, and torch's clients may come as well.
  constexpr std::size_t per_rank = 4, others = 64;
  try {
    return std::make_shared<StoreServer>(StoreServerOptions{
        .port = detected.port,
        .host = detected.host,
        .several_hosts = may_have_several_hosts(detected),
        .secret = detected.secret,
        .most_connections = per_rank * static_cast<std::size_t>(detected.size) + others});
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::address_in_use) return nullptr;
    throw CommunicationError("join: cannot serve the store at port " +
                             std::to_string(detected.port) + ": " + error.what());
  }
}

/// The process's server of this place, which another communicator may have started.
std::shared_ptr<StoreServer> serve(const Detected& detected) {
  if (detected.port == 0) return start_server(detected);
  static std::mutex mutex;
  static std::map<std::tuple<std::string, std::uint16_t, std::string>, std::weak_ptr<StoreServer>>
      servers;
  const std::lock_guard lock(mutex);
  std::erase_if(servers, [](const auto& entry) { return entry.second.expired(); });
  const auto key = std::tuple(detected.host, detected.port, detected.secret);
  if (const auto found = servers.find(key); found != servers.end())
    if (std::shared_ptr<StoreServer> server = found->second.lock()) return server;
  std::shared_ptr<StoreServer> server = start_server(detected);
  if (server) servers[key] = server;
  return server;
}

std::unique_ptr<Store> connect_to_place(const Detected& detected, milliseconds deadline) {
  return connect_store(detected.host, detected.port, deadline, StoreProtocol::automatic,
                       detected.secret);
}

std::shared_ptr<JobStore> serve_or_connect(const Detected& detected, Clock::time_point end) {
  auto store = std::make_shared<JobStore>();
  std::string met;
  for (milliseconds longest = 250ms;; longest = std::min<milliseconds>(2 * longest, 60s)) {
    const milliseconds left = time_left(end, 1ms);
    store->server = serve(detected);
    if (store->server) {
      store->client = connect_store(store->server->own_address(), store->server->port(), left,
                                    StoreProtocol::torch_2, detected.secret);
      return store;
    }
    try {
      store->client = connect_to_place(detected, std::min(left, longest));
      store->client->set_deadline(left);
      return store;
    } catch (const CommunicationError& error) {
      // An attempt that the end cuts off meets silence, whatever earlier ones have met.
      if (met.empty() || longest < left) met = error.what();
      if (longest >= left)
        throw CommunicationError(
            "join: port " + std::to_string(detected.port) +
            " is in use on this host, by something that is no store of this job: " + met);
    }
  }
}

}  // namespace

std::shared_ptr<JobStore> open_store(const Detected& detected, Clock::time_point end) {
  if (detected.rank == 0 && !detected.agent_hosts_store) return serve_or_connect(detected, end);
  auto store = std::make_shared<JobStore>();
  store->client = connect_to_place(detected, time_left(end, 1ms));
  return store;
}

}  // namespace shampoo::rendezvous
