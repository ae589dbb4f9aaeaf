// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/waiters.h"

#include "distributor/store/wire.h"

namespace shampoo::store {

bool Waiters::add(ClientId client, const std::vector<std::string_view>& missing) {
  Wait& wait = waits_[client];
  if (wait.keys.size() + missing.size() > most_keys) return false;
  for (const std::string_view key : missing) {
    wait.keys.emplace_back(key);
    clients_.emplace(key, client);
  }
  wait.left = missing.size();
  return true;
}

std::vector<ClientId> Waiters::wake(std::string_view key) {
  std::vector<ClientId> waiting, woken;
  const auto [begin, end] = clients_.equal_range(key);
  for (auto entry = begin; entry != end; ++entry) waiting.push_back(entry->second);
  clients_.erase(begin, end);
  for (const ClientId client : waiting) {
    const auto found = waits_.find(client);
    if (found == waits_.end() || --found->second.left > 0) continue;
    woken.push_back(client);
    remove(client);
  }
  return woken;
}

void Waiters::remove(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (const std::string& key : found->second.keys) {
    const auto [begin, end] = clients_.equal_range(key);
    for (auto entry = begin; entry != end;)
      entry = entry->second == client ? clients_.erase(entry) : std::next(entry);
  }
  waits_.erase(found);
}

}  // namespace shampoo::store
