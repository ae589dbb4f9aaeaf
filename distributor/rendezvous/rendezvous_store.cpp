// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/rendezvous_store.h"

#include <system_error>
#include <utility>

#include "distributor/error.h"
#include "distributor/store/store_server.h"

namespace shampoo::joining {
namespace {

/// Destroyed from below: the client before the server.
struct MeetingPoint {
  std::unique_ptr<StoreServer> server;
  std::unique_ptr<Store> store;
};

/// Null where the port is taken.
std::unique_ptr<StoreServer> serve(std::uint16_t port) {
  try {
    return std::make_unique<StoreServer>(StoreServerOptions{.port = port});
  } catch (const std::system_error& error) {
    if (error.code() == std::errc::address_in_use) return nullptr;
    throw CommunicationError("join: cannot serve the store at port " + std::to_string(port) + ": " +
                             error.what());
  }
}

}  // namespace

std::shared_ptr<Store> open_meeting_point(const Detected& detected,
                                          std::chrono::milliseconds deadline) {
  auto point = std::make_shared<MeetingPoint>();
  if (detected.rank == 0 && !detected.agent_hosts_store) point->server = serve(detected.port);
  if (point->server) {
    point->store = connect_store("localhost", point->server->port(), deadline);
  } else {
    point->store = connect_store(detected.host, detected.port, deadline, detected.protocol);
  }
  return {point, point->store.get()};
}

}  // namespace shampoo::joining
