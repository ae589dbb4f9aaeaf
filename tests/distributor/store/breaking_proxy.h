// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "distributor/store/socket.h"

namespace shampoo::test {

/// Stands between clients and a server on this machine, and breaks connections when told to.
class BreakingProxy {
 public:
  explicit BreakingProxy(std::uint16_t server_port);
  ~BreakingProxy();
  BreakingProxy(const BreakingProxy&) = delete;
  BreakingProxy& operator=(const BreakingProxy&) = delete;

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }
  /// So many of the next replies are lost, each with its connection.
  void lose_replies(int count) { to_lose_ = count; }
  /// From now on clients are connected with another server; their connections break.
  void lead_to(std::uint16_t server_port);
  /// Nobody listens any more; connections break.
  void stop();

 private:
  struct Link {
    store::Socket client, server;
  };
  void run();
  bool forward(Link& link, bool from_server);

  store::Socket listener_;
  std::uint16_t port_;
  std::atomic<std::uint16_t> server_port_;
  std::atomic<int> to_lose_ = 0, connections_ = 0;
  std::atomic<bool> stopping_ = false, breaks_all_ = false;
  std::vector<Link> links_;
  std::thread thread_;
};

}  // namespace shampoo::test
