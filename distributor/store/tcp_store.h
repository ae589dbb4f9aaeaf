// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "distributor/store/handshake.h"
#include "distributor/store/store.h"
#include "distributor/store/wire.h"

namespace shampoo::store {

/// Throws std::invalid_argument below 1 ms.
void check_deadline(std::chrono::milliseconds deadline);

/// A client over one connection, which it renews if the server is a StoreServer.
class TcpStore final : public Store {
 public:
  TcpStore(std::string place, std::string secret, Peer peer, std::chrono::milliseconds deadline)
      : place_(std::move(place)),
        secret_(std::move(secret)),
        peer_(std::move(peer)),
        deadline_(deadline) {}

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string set_if_absent(std::string_view key, std::string_view desired) override;
  bool remove(std::string_view key) override;
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override;
  void set_deadline(std::chrono::milliseconds deadline) override;
  std::string description() const override;

 private:
  bool is_extended() const { return !peer_.instance.empty(); }
  Message message(Request request) const { return {request, peer_.protocol}; }
  /// Calls exchange(), again if the connection breaks, until the deadline.
  template <typename Exchange>
  auto request(const Exchange& exchange);
  void connect_again();
  void send(const Message& message);
  void receive(char* bytes, std::size_t size);
  bool receive_flag();
  std::int64_t receive_number();
  std::string receive_text();
  void check_keys(std::span<const std::string> keys) const;
  bool check(std::span<const std::string> keys);
  bool wait_in_server(std::span<const std::string> keys, Deadline end);
  std::uint8_t old_number_of_remove();
  [[noreturn]] void throw_late(const std::string& what);
  [[noreturn]] void fail(const std::string& reason);

  std::string place_, secret_;
  Peer peer_;
  std::chrono::milliseconds deadline_;
  Deadline until_;       ///< of the current request
  std::string failure_;  ///< the first one that is final; all later requests fail with it too
  std::uint8_t old_number_of_remove_ = 0;
};

}  // namespace shampoo::store
