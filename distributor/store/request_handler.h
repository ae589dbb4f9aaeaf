// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "distributor/store/key_table.h"
#include "distributor/store/request_reader.h"
#include "distributor/store/waiters.h"

namespace shampoo::store {

/// Keys and values of the store, and what each request does to them: as torch's libuv server,
/// except that GET of a missing key by a release up to 2.1 closes the connection, as those expect.
class RequestHandler {
 public:
  /// `most_bytes`: limit of all keys and values.
  explicit RequestHandler(std::size_t most_bytes);

  /// Who asks.
  struct Client {
    ClientId id = 0;
    Account account = Account::ours();
  };
  /// Appends the reply to `reply`. False: refused, the client is to be disconnected.
  bool handle(const Client& client, const RequestReader& request, std::string_view bytes,
              StoreProtocol protocol, std::string& reply);
  /// Clients whose WAIT has ended since the last call; each is to be sent a byte 0.
  std::vector<ClientId> take_woken();
  void disconnected(ClientId client) { waiters_.remove(client); }
  const KeyTable& table() const { return values_; }
  void remove_keys_except(std::string_view prefix) { values_.remove_all_except(prefix); }

 private:
  struct Call {
    const Client& client;
    const RequestReader& request;
    std::string_view bytes;
    std::string& reply;
    std::string_view text(std::size_t field) const { return request.text(bytes, field); }
    std::int64_t number(std::size_t field) const { return request.number(bytes, field); }
  };
  /// Stores the value and wakes the clients that wait for the key. False: there is no room.
  bool store(const Call& call, std::string_view key, std::string value);
  std::vector<std::string_view> missing(const Call& call) const;
  void check(const Call& call) const;
  bool handle_wait(const Call& call);
  bool get(const Call& call, StoreProtocol protocol) const;
  bool multi_get(const Call& call) const;
  void find(const Call& call) const;
  bool multi_set(const Call& call);
  bool append(const Call& call);
  bool compare_set(const Call& call);
  bool add(const Call& call);
  bool add_once(const Call& call);

  std::string instance_;  ///< name of this server
  KeyTable values_;
  Waiters waiters_;
  std::vector<ClientId> woken_;
  std::unordered_map<std::string, std::int64_t> sums_;  ///< of add_once(), by name
  std::deque<std::string> names_;                       ///< of sums_, the oldest first
};

}  // namespace shampoo::store
