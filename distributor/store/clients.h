// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "distributor/store/connection.h"

namespace shampoo {
struct StoreServerOptions;
}

namespace shampoo::store {

/// The connections of a server, within its limits: on all of them together, on those from one host
/// that have not proved the job's secret, on the time until a connection's first request, and on
/// the memory for what is not yet answered.
class Clients {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Clients(const StoreServerOptions& options);

  /// Null if there is no such connection.
  Connection* find(ClientId id);
  /// Takes a connection. Null if it is refused.
  Connection* add(ClientId id, Socket socket);
  /// Needs no memory.
  void remove(ClientId id);
  /// Notes that a client has sent something. False: the connection is to be closed, as all together
  /// need too much memory.
  bool note(Connection& connection);

  /// The connection that should make room before another one is added: the longest idle one among
  /// those that have only asked. Empty: there is room, or nobody to go.
  std::optional<ClientId> one_too_many() const;
  /// The next one that has not sent its first request in time, or not proved the secret. Empty:
  /// there is none, for now. Needs no memory.
  std::optional<ClientId> take_late(Clock::time_point now);
  /// When take_late() has something to do. Empty: not before another connection is added.
  std::optional<Clock::time_point> next_late() const;

  std::size_t size() const { return connections_.size(); }
  /// Of all connections that there are and were.
  Traffic traffic() const;
  std::size_t most() const { return most_; }

 private:
  bool is_full_for(const Account& account) const;

  std::string secret_;
  bool trusts_same_user_;
  std::size_t most_, memory_ = 0;
  Traffic past_;
  std::chrono::milliseconds greeting_time_;
  std::unordered_map<ClientId, Connection> connections_;
  std::unordered_map<std::string, std::size_t> of_host_;  ///< connections, but for ours
  std::deque<std::pair<Clock::time_point, ClientId>> greetings_;
};

}  // namespace shampoo::store
