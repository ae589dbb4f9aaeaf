// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/waiters.h"

#include "distributor/store/wire.h"

namespace shampoo::store {

namespace {

constexpr std::size_t most_bytes_of_client = std::size_t{1} << 20;
constexpr std::size_t most_bytes_of_all = std::size_t{512} << 20;

}  // namespace

bool Waiters::add(ClientId client, const std::vector<std::string_view>& missing) {
  Wait& wait = waits_[client];
  std::size_t added = 0;
  for (const std::string_view key : missing) added += key.size();
  if (wait.keys.size() + missing.size() > most_keys) return false;
  if (wait.bytes + added > most_bytes_of_client || bytes_ + added > most_bytes_of_all) return false;
  wait.bytes += added;
  bytes_ += added;
  for (const std::string_view key : missing) {
    wait.keys.emplace_back(key);
    clients_.emplace(key, client);
  }
  wait.left = missing.size();
  return true;
}

void Waiters::wake(std::string_view key, std::vector<ClientId>& woken) {
  const std::size_t before = woken.size();
  auto [entry, end] = clients_.equal_range(key);
  for (; entry != end; entry = clients_.erase(entry)) {
    const auto found = waits_.find(entry->second);
    if (found->second.left > 0 && --found->second.left == 0) woken.push_back(entry->second);
  }
  for (std::size_t i = before; i < woken.size(); ++i) remove(woken[i]);
}

void Waiters::remove(ClientId client) {
  const auto found = waits_.find(client);
  if (found == waits_.end()) return;
  for (const std::string& key : found->second.keys) {
    const auto [begin, end] = clients_.equal_range(key);
    for (auto entry = begin; entry != end;)
      entry = entry->second == client ? clients_.erase(entry) : std::next(entry);
  }
  bytes_ -= found->second.bytes;
  waits_.erase(found);
}

}  // namespace shampoo::store
