// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace shampoo::store {

using ClientId = std::uint64_t;

/// Clients that wait for keys to be set, at most one wait of each.
class Waiters {
 public:
  explicit Waiters(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// The wait ends when so many of the keys have been set; keys of a wait that has not ended stay.
  /// False: refused, for want of memory.
  bool add(ClientId client, const std::vector<std::string_view>& missing);
  /// Whose wait ended, in the order in which they began.
  std::vector<ClientId> wake(std::string_view key);
  /// Tells only the one that waits longest.
  std::optional<ClientId> wake_one(std::string_view key);
  void remove(ClientId client);

 private:
  struct Wait {
    std::uint64_t ticket = 0;
    std::size_t left = 0, bytes = 0;
    std::vector<std::string> keys;
  };
  using Places = std::map<std::pair<std::string, std::uint64_t>, ClientId>;
  bool arrived(Places::iterator place);

  std::size_t most_bytes_, bytes_ = 0;
  std::uint64_t next_ticket_ = 0;
  std::map<ClientId, Wait> waits_;
  Places places_;  ///< by key and ticket
};

}  // namespace shampoo::store
