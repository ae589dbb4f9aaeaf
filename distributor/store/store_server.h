// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

namespace shampoo {

struct StoreServerOptions {
  std::uint16_t port = 0;  ///< 0: any free one
};

/// Serves a job's store on its own thread. Compatible with torch's TCPStore of releases up to 2.1
/// and from 2.2 on, distinguished by a connection's first bytes. No authentication, as in torch.
///
/// Malformed and oversized requests (a key of more than 8 KiB, a value of more than 8 MiB, 64 MiB
/// in all) close their connection only. Requests of later releases (queues, BARRIER, LIST_KEYS) are
/// not served and close it too.
class StoreServer {
 public:
  /// Listens on all addresses, IPv6 and IPv4. Throws std::system_error, naming the port, if it is
  /// in use.
  explicit StoreServer(const StoreServerOptions& options = {});
  /// Closes all connections.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const;
  /// Removes all keys that do not start with `prefix`, those of an earlier attempt. Waits until it
  /// is done.
  void remove_keys_except(std::string_view prefix);

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace shampoo
