// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
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
#include "distributor/store/store_server.h"

namespace shampoo::store {

/// The thread of a server, which waits in epoll for all of its connections.
class ServerLoop {
 public:
  explicit ServerLoop(const StoreServerOptions& options);
  ~ServerLoop();
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  std::uint16_t port() const { return port_; }
  std::string own_address() const { return own_address_; }
  std::size_t most_connections() const { return clients_.most(); }
  StoreStatistics statistics();
  /// Runs the task on the loop's thread and waits for it. Throws what it throws.
  void execute(std::function<void()> task);
  void remove_keys_except(std::string_view prefix) {
    execute([&] { handler_.remove_keys_except(prefix); });
  }

 private:
  void run();
  void run_task();
  void react(ClientId id, std::uint32_t events);
  void listen(bool wanted);
  void accept_all(const Socket& listener);
  void accept_one(Socket socket);
  void drop_late();
  int pause_ms() const;
  void serve(ClientId id, std::uint32_t events);
  bool answer(Connection& connection, std::uint32_t events);
  void end_waits();
  void update_events(ClientId id);
  void drop(ClientId id);
  bool watch(int operation, int fd, ClientId id, std::uint32_t events);

  std::vector<Socket> listeners_;
  Socket epoll_, wake_;
  std::uint16_t port_;
  std::string own_address_;
  RequestHandler handler_;
  Clients clients_;
  ClientId next_id_;
  std::uint64_t accepted_ = 0;
  std::size_t most_connections_ = 0, most_table_bytes_ = 0;
  bool listening_ = true, stopping_ = false;
  std::array<char, 64 << 10> scratch_;
  std::mutex mutex_;                 ///< held by the thread that executes a task
  std::packaged_task<void()> task_;  ///< handed over by writing to wake_
  std::thread thread_;
};

}  // namespace shampoo::store
