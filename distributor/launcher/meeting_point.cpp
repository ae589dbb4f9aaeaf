// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/meeting_point.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <system_error>

#include "distributor/error.h"
#include "distributor/launcher/local_store.h"
#include "distributor/launcher/node_group.h"
#include "distributor/store/tcp_store.h"
#include "distributor/system/host_name.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::launcher {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Whether `host` is this machine: by its name, or as one can bind to one of its addresses.
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

/// Empty where another node serves.
std::unique_ptr<StoreServer> serve(const LaunchOptions& options) {
  StoreServerOptions server;
  server.port = options.endpoint_port;
  if (options.rendezvous == Rendezvous::fixed)
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

/// Serves, or else connects. Each time it looks anew who serves: names become known late, and ports
/// free. False where interrupted.
bool open_store(const LaunchOptions& options, const std::function<bool()>& interrupted,
                MeetingPoint& result) {
  const auto until = Clock::now() + options.times.join;
  constexpr milliseconds once{1000};
  while (!interrupted()) {
    result.server = serve(options);
    result.host = result.server != nullptr;
    try {
      result.store =
          result.host ? connect_store("localhost", result.server->port(), std::chrono::seconds(10))
                      : connect_store(options.endpoint_host, options.endpoint_port,
                                      std::min(once, options.times.join));
      return true;
    } catch (const CommunicationError& error) {
      if (result.host) throw;
      if (Clock::now() >= until)
        throw Refused("no job answers within " + std::to_string(options.times.join.count()) +
                      " ms: " + error.what());
    }
  }
  return false;
}

/// Whether it is this job; false where interrupted.
bool check_job(Store& store, const LaunchOptions& options, const std::string& place,
               const std::function<bool()>& interrupted) {
  constexpr milliseconds longest{5000}, between{50};  // the host names the job once it serves
  const auto until = Clock::now() + longest;
  auto job = job_of(store);
  for (; !job && Clock::now() < until; job = job_of(store)) {
    if (interrupted()) return false;
    poll(nullptr, 0, static_cast<int>(between.count()));
  }
  if (!job)
    throw Refused("what serves " + place +
                  " is no shampoorun: all nodes of a job must use the same launcher");
  if (*job != options.run_id)
    throw Refused("--rdzv-id: the job at " + place + " is '" + *job + "', not '" + options.run_id +
                  "'");
  return true;
}

}  // namespace

std::optional<MeetingPoint> meet(const LaunchOptions& options,
                                 const std::function<bool()>& interrupted) {
  MeetingPoint result;
  if (options.most_nodes == 1) {
    result.store = std::make_unique<LocalStore>();
    result.place = result.store->description();
    return result;
  }
  if (options.endpoint_port == 0)
    throw Refused("--rdzv-endpoint: a job of several nodes needs a port, one of 1 to 65535");
  result.place = options.endpoint_host + ":" + std::to_string(options.endpoint_port);
  if (!open_store(options, interrupted, result)) return std::nullopt;
  const milliseconds deadline = options.times.heartbeat * options.times.heartbeats_missed;
  result.store->set_deadline(std::max(deadline, milliseconds(1000)));
  if (!result.host && !check_job(*result.store, options, result.place, interrupted))
    return std::nullopt;
  return result;
}

}  // namespace shampoo::launcher
