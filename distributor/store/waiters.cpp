// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/waiters.h"

namespace shampoo::store {

bool Waiters::add(ClientId client, const std::vector<std::string_view>& missing) {
  constexpr std::size_t place_bytes = 160;
  std::size_t bytes = 0;
  for (const std::string_view key : missing) bytes += place_bytes + 2 * key.size();
  if (bytes > most_bytes_ - bytes_) return false;

  const auto [place, is_new] = waits_.try_emplace(client);
  Wait& wait = place->second;
  if (is_new) wait.ticket = next_ticket_++;
  bytes_ += bytes;
  wait.bytes += bytes;
  wait.left = 0;
  for (const std::string_view key : missing) {
    wait.keys.emplace_back(key);
    wait.left += places_.emplace(std::pair{wait.keys.back(), wait.ticket}, client).second;
  }
  // All of them are keys that an earlier wait is still there for.
  if (wait.left == 0) wait.left = 1;
  return true;
}

std::vector<ClientId> Waiters::wake(std::string_view key) {
  std::vector<ClientId> woken;
  for (auto place = places_.lower_bound({std::string(key), 0});
       place != places_.end() && place->first.first == key;
       place = places_.lower_bound({std::string(key), 0})) {
    const ClientId client = place->second;
    if (arrived(place)) woken.push_back(client);
  }
  return woken;
}

std::optional<ClientId> Waiters::wake_one(std::string_view key) {
  const auto place = places_.lower_bound({std::string(key), 0});
  if (place == places_.end() || place->first.first != key) return std::nullopt;
  const ClientId client = place->second;
  if (!arrived(place)) return std::nullopt;
  return client;
}

void Waiters::remove(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (std::string& key : found->second.keys) places_.erase({std::move(key), found->second.ticket});
  bytes_ -= found->second.bytes;
  waits_.erase(found);
}

bool Waiters::arrived(Places::iterator place) {
  const ClientId client = place->second;
  places_.erase(place);
  if (--waits_.at(client).left > 0) return false;
  remove(client);
  return true;
}

}  // namespace shampoo::store
