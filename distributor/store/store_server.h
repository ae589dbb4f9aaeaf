// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

namespace shampoo {

struct StoreServerOptions {
  std::uint16_t port = 0;                           ///< 0: any free one
  std::size_t most_bytes = std::size_t{256} << 20;  ///< of all keys, values and half-read requests
  int most_connections = 65'536;
};

/// Serves the store of a job on a thread of its own: torch's TCPStore, with the bytes of releases
/// up to 2.1 and of those from 2.2 on, told apart by a connection's first bytes.
///
/// One client cannot disturb another: half a request, giant lengths, random bytes cost its own
/// connection only. Where the process can have no more connections, those go first that have not
/// sent a request, the oldest of them before the others.
class StoreServer {
 public:
  /// Listens on all addresses, IPv6 and IPv4. Throws std::system_error, naming the port, where it
  /// is taken.
  explicit StoreServer(const StoreServerOptions& options = {});
  /// Closes all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;
  /// Removes all keys and queues but those whose names begin with `prefix`. Waits until it is done.
  void remove_keys_except(std::string_view prefix);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace shampoo
