// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/store/key_value_table.h"
#include "distributor/store/request_reader.h"
#include "distributor/store/waiters.h"

namespace shampoo::store {

/// What a request does to the store, and its reply: as torch's libuv server, but for a GET of a
/// missing key by releases up to 2.1, which expect the connection to be closed.
class Service {
 public:
  /// `most_bytes` of keys, values and waits; no reply is longer than `most_reply_bytes`.
  Service(std::size_t most_bytes, std::size_t most_reply_bytes)
      : most_reply_bytes_(most_reply_bytes), table_(most_bytes / 2), waiters_(most_bytes / 2) {}

  /// Appends the reply to `reply`. False: refused, the client is to be disconnected.
  bool answer(ClientId client, const RequestReader& request, std::string_view bytes,
              StoreProtocol protocol, std::string& reply);
  /// Whom to send the end of their wait, a byte 0.
  std::vector<ClientId> take_woken();
  void forget(ClientId client) { waiters_.remove(client); }
  void remove_keys_except(std::string_view prefix) { table_.remove_except(prefix); }

 private:
  struct Call {
    ClientId client;
    const RequestReader& request;
    std::string_view bytes;
    std::string& reply;
    std::string_view text(std::size_t field) const { return request.text(bytes, field); }
    std::int64_t number(std::size_t field) const { return request.number(bytes, field); }
  };
  bool answer_texts(const Call& call, StoreProtocol protocol);
  bool get(const Call& call, StoreProtocol protocol);
  bool multi_get(const Call& call);
  bool multi_set(const Call& call);
  bool compare_set(const Call& call);
  bool add(const Call& call);
  bool check(const Call& call);
  bool wait(const Call& call);
  bool barrier(const Call& call);
  bool queue_push(const Call& call);
  bool queue_pop(const Call& call);
  bool list_keys(const Call& call);
  /// Wakes who waits for the key, where it was stored.
  bool stored(bool done, std::string_view key);
  void wake(const std::string& place);

  std::size_t most_reply_bytes_;
  Table table_;
  Waiters waiters_;
  std::vector<ClientId> woken_;
};

}  // namespace shampoo::store
