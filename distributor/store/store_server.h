// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "distributor/store/clients.h"
#include "distributor/store/request_handler.h"
#include "distributor/store/socket.h"
#include "distributor/system/event.h"

namespace shampoo {

struct StoreServerOptions {
  std::uint16_t port = 0;  ///< 0: any free one
  /// Name or address by which the ranks find the server, which listens at those of its addresses
  /// that this host has. Without any, or empty: at all addresses of this host.
  std::string host = {};
  bool several_hosts = true;  ///< loopback addresses of `host` do not count

  /// The job's secret, at least 16 bytes, which clients have to prove before anything else, see
  /// store/proof.h. Empty: whoever reaches the port is served, as by torch.
  std::string secret = {};
  /// Serves processes of this one's user on this host without a proof, and without a secret nobody
  /// else. Needs addresses of one family, such as those of "localhost".
  bool trusts_same_user = false;

  /// Limit of connections, at most half of the descriptors that this process may have; 0: that
  /// half.
  std::size_t most_connections = 0;
  std::size_t most_bytes = std::size_t{256} << 20;  ///< limit of all keys and values, not 0
  /// Time for the first request of a connection, and for its proof, from 1 ms to one year.
  std::chrono::milliseconds greeting_time = std::chrono::seconds(20);
};

/// What a server has done since its start.
struct StoreStatistics {
  std::uint64_t requests = 0;                         ///< answered
  std::uint64_t bytes_received = 0, bytes_sent = 0;   ///< without headers of TCP
  std::uint64_t accepted = 0;                         ///< connections
  std::size_t connections = 0, most_connections = 0;  ///< now, and at the same time
  std::size_t keys = 0, bytes = 0, most_bytes = 0;    ///< of the table, now and at most
};

/// Serves a job's store on its own thread. Compatible with torch's TCPStore of releases up to 2.1
/// and from 2.2 on, distinguished by a connection's first bytes; torch's clients cannot prove a
/// secret.
///
/// Malformed and oversized requests (a key of more than 8 KiB, a value of more than 8 MiB, 64 MiB
/// in all) close their connection only. Requests of later releases (queues, BARRIER, LIST_KEYS) are
/// not served and close it too. Clients of one host that have proved nothing get at most half of
/// the table, and where there is a secret half of the connections. Where all connections are in
/// use, a new one replaces the longest idle one that has neither changed a key nor waited for one.
class StoreServer {
 public:
  /// Throws std::system_error, naming the port, if it is in use, and std::invalid_argument, naming
  /// the field, for options out of range.
  explicit StoreServer(const StoreServerOptions& options = {});
  /// Closes all connections; in a child process of fork(), which has no thread that serves, only
  /// its descriptors of them.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const { return port_; }
  /// Address at which processes of this host reach it.
  std::string own_address() const { return own_address_; }
  /// Limit of connections.
  std::size_t most_connections() const { return clients_.most(); }
  /// Removes all keys that do not start with `prefix`, those of an earlier attempt. Waits until it
  /// is done.
  void remove_keys_except(std::string_view prefix) {
    execute([&] { handler_.remove_keys_except(prefix); });
  }
  StoreStatistics statistics() const;

 private:
  using ClientId = store::ClientId;

  /// Runs the task on the server's thread and waits for it. Throws what it throws.
  void execute(std::function<void()> task) const;
  void run_task();
  void run();
  void react(ClientId id, std::uint32_t events);
  void listen(bool wanted);
  void accept_all(const store::Socket& listener);
  void accept_one(store::Socket socket);
  void drop_late();
  int pause_ms() const;
  void serve(ClientId id, std::uint32_t events);
  bool answer(store::Connection& connection, std::uint32_t events);
  void end_waits();
  void update_events(ClientId id);
  void drop(ClientId id);
  bool watch(int operation, int fd, ClientId id, std::uint32_t events);

  std::vector<store::Socket> listeners_;
  store::Socket epoll_;
  std::uint16_t port_;
  std::string own_address_;
  store::RequestHandler handler_;
  store::Clients clients_;
  ClientId next_id_;
  std::uint64_t accepted_ = 0;
  std::size_t most_connections_ = 0, most_table_bytes_ = 0;
  bool listening_ = true;
  std::atomic<bool> stopping_ = false;
  const pid_t process_;  ///< that has the thread
  std::array<char, 64 << 10> scratch_;
  Event wake_;                               ///< the thread has a task
  mutable std::mutex mutex_;                 ///< held by who executes a task
  mutable std::packaged_task<void()> task_;  ///< handed over by wake_
  std::thread thread_;                       ///< waits in epoll for all connections
};

}  // namespace shampoo
