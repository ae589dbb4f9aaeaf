// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/store/request_reader.h"
#include "distributor/store/waiters.h"

namespace shampoo::store {

/// Keys and values of the store, and what each request does to them: as torch's libuv server,
/// except that GET of a missing key by a release up to 2.1 closes the connection, as those expect.
class RequestHandler {
 public:
  /// Appends the reply to `reply`. False: refused, the client is to be disconnected.
  bool handle(ClientId client, const RequestReader& request, std::string_view bytes,
              StoreProtocol protocol, std::string& reply);
  /// Clients whose WAIT has ended since the last call; each is to be sent a byte 0.
  std::vector<ClientId> take_woken();
  void disconnected(ClientId client) { waiters_.remove(client); }
  void remove_keys_except(std::string_view prefix) {
    std::erase_if(values_, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
  }

 private:
  struct Call {
    const RequestReader& request;
    std::string_view bytes;
    std::string& reply;
    std::string_view text(std::size_t field) const { return request.text(bytes, field); }
    std::int64_t number(std::size_t field) const { return request.number(bytes, field); }
  };
  const std::string* find(std::string_view key) const;
  /// Stores the value and wakes the clients that wait for the key.
  void store(std::string_view key, std::string value);
  std::vector<std::string_view> missing(const Call& call) const;
  bool handle_wait(ClientId client, const Call& call);
  bool get(const Call& call, StoreProtocol protocol) const;
  bool multi_get(const Call& call) const;
  bool append(const Call& call);
  void compare_set(const Call& call);
  bool add(const Call& call);
  void remove(const Call& call);

  std::map<std::string, std::string, std::less<>> values_;
  Waiters waiters_;
  std::vector<ClientId> woken_;
};

}  // namespace shampoo::store
