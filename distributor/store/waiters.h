// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace shampoo::store {

using ClientId = std::uint64_t;

/// Clients blocked in WAIT, at most one wait per client. As in torch, a second WAIT of a client
/// replaces the number of keys to be set, and keys of the first still count.
class Waiters {
 public:
  /// The wait ends when each of the keys has been set. False: too many keys, or too long ones, of
  /// this client or of all.
  bool add(ClientId client, const std::vector<std::string_view>& missing);
  /// The most clients that wake() finds.
  std::size_t count(std::string_view key) const { return clients_.count(key); }
  /// Counts the key as set; appends the clients whose waits end. Does not throw where `woken` has
  /// room for count() more.
  void wake(std::string_view key, std::vector<ClientId>& woken);
  void remove(ClientId client);

 private:
  struct Wait {
    std::size_t left = 0, bytes = 0;
    std::vector<std::string> keys;
  };
  std::size_t bytes_ = 0;  ///< of the keys of all waits
  std::unordered_map<ClientId, Wait> waits_;
  std::multimap<std::string, ClientId, std::less<>> clients_;
};

}  // namespace shampoo::store
