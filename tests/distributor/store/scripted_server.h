// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "distributor/store/socket.h"

namespace shampoo::test {

/// What a server does on one connection.
struct Script {
  struct Line {
    std::string expected, reply;
  };
  std::vector<Line> lines = {};
  bool closes = false;  ///< after them; else it is silent until the client closes
};

/// Follows one script on each connection, in the order in which they come, the last one on all
/// further ones. Closes at the first byte that is not the expected one.
class ScriptedServer {
 public:
  explicit ScriptedServer(std::vector<Script> scripts);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::uint16_t port() const { return port_; }
  int connections() const { return connections_; }

 private:
  void run();
  void follow(store::Socket socket, const Script& script);

  std::vector<Script> scripts_;
  store::Socket listener_;
  std::uint16_t port_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> connections_ = 0;
  std::thread thread_;
};

}  // namespace shampoo::test
