// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/nodes/job_store.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "distributor/communicator.h"
#include "distributor/store/tcp_store.h"
#include "distributor/system/host_name.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// True for this machine's name, and for an address that one can bind to.
bool is_here(const std::string& host) {
  if (host == host_name()) return true;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(first, &freeaddrinfo);
  for (const addrinfo* address = first; address; address = address->ai_next) {
    const UniqueFd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket && bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0) return true;
  }
  return false;
}

/// Null where another node serves.
std::unique_ptr<StoreServer> serve(const LaunchOptions& options) {
  StoreServerOptions server;
  server.port = options.endpoint_port;
  if (options.rendezvous != Rendezvous::dynamic)
    return options.node_rank == 0 ? std::make_unique<StoreServer>(server) : nullptr;
  if (!options.is_host.value_or(is_here(options.endpoint_host))) return nullptr;
  try {
    return std::make_unique<StoreServer>(server);
  } catch (const std::system_error& error) {
    const bool other_serves = error.code() == std::errc::address_in_use && !options.is_host;
    if (!other_serves) throw;
    return nullptr;
  }
}

}  // namespace

/// Tries to serve before each attempt to connect: names become known late, and ports free.
JobStore open_job_store(const LaunchOptions& options) {
  constexpr milliseconds one_attempt{1000}, local{10'000};
  const auto end = Clock::now() + options.times.join;
  const std::string port = std::to_string(options.endpoint_port);
  JobStore result{nullptr, nullptr, options.endpoint_host + ":" + port};
  while (!result.store) {
    result.server = serve(options);
    try {
      result.store = result.is_host() ? connect_store("localhost", result.server->port(), local)
                                      : connect_store(options.endpoint_host, options.endpoint_port,
                                                      std::min(one_attempt, options.times.join));
    } catch (const CommunicationError& error) {
      if (result.is_host()) throw;
      if (Clock::now() >= end)
        throw Refused("no job answers within " + std::to_string(options.times.join.count()) +
                      " ms: " + error.what());
    }
  }
  const milliseconds deadline = options.times.heartbeat * options.times.heartbeats_missed;
  result.store->set_deadline(std::max(deadline, milliseconds(1000)));
  return result;
}

}  // namespace shampoo::launcher
