// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/clients.h"

#include <sys/resource.h>

#include <algorithm>

#include "distributor/store/store_server.h"
#include "distributor/system/network_address.h"
#include "distributor/system/socket_owner.h"

namespace shampoo::store {

namespace {

constexpr std::size_t most_memory = std::size_t{256} << 20;
/// A connection with less is never closed for the memory of others.
constexpr std::size_t modest_memory = std::size_t{64} << 10;

/// Half of the descriptors that this process may have.
std::size_t half_of_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 512;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur / 2, 1 << 20));
}

}  // namespace

Clients::Clients(const StoreServerOptions& options)
    : secret_(options.secret),
      trusts_same_user_(options.trusts_same_user),
      most_(options.most_connections > 0 ? std::min(options.most_connections, half_of_descriptors())
                                         : half_of_descriptors()),
      greeting_time_(options.greeting_time) {}

Connection* Clients::find(ClientId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

bool Clients::is_full_for(const Account& account) const {
  if (connections_.size() >= most_) return true;
  if (secret_.empty() || account.is_ours()) return false;
  const auto found = of_host_.find(account.name);
  return found != of_host_.end() && found->second >= most_ / 2;
}

Connection* Clients::add(ClientId id, Socket socket) {
  const bool same_user = trusts_same_user_ && is_peer_same_user(socket.get());
  Account account = Account::ours();
  if (!same_user) account.name = numeric_text(peer_address(socket.get()));
  if (is_full_for(account)) return nullptr;
  std::size_t* const of_its_host = account.is_ours() ? nullptr : &of_host_[account.name];
  greetings_.emplace_back(after(greeting_time_), id);
  const bool trusted = same_user || (secret_.empty() && !trusts_same_user_);
  Connection& connection = connections_
                               .try_emplace(id, id, std::move(socket),
                                            ClientOrigin{std::move(account), secret_, trusted})
                               .first->second;
  if (of_its_host) ++*of_its_host;
  connection.last_active = Clock::now();
  return &connection;
}

void Clients::remove(ClientId id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  memory_ -= found->second.counted_memory;
  past_ += found->second.traffic();
  const auto count = of_host_.find(found->second.origin().account.name);
  if (count != of_host_.end() && --count->second == 0) of_host_.erase(count);
  connections_.erase(found);
}

bool Clients::note(Connection& connection) {
  const std::size_t now = connection.memory();
  memory_ += now - connection.counted_memory;
  connection.counted_memory = now;
  connection.last_active = Clock::now();
  return memory_ <= most_memory || now <= modest_memory;
}

Traffic Clients::traffic() const {
  Traffic sum = past_;
  for (const auto& [id, connection] : connections_) sum += connection.traffic();
  return sum;
}

std::optional<ClientId> Clients::one_too_many() const {
  if (connections_.size() < most_) return std::nullopt;
  std::optional<ClientId> found;
  Clock::time_point longest = Clock::time_point::max();
  for (const auto& [id, connection] : connections_) {
    if (connection.takes_part() || connection.last_active >= longest) continue;
    if (connection.account().is_ours()) continue;
    found = id;
    longest = connection.last_active;
  }
  return found;
}

std::optional<ClientId> Clients::take_late(Clock::time_point now) {
  while (!greetings_.empty() && greetings_.front().first <= now) {
    const ClientId id = greetings_.front().second;
    greetings_.pop_front();
    const Connection* connection = find(id);
    if (connection && !connection->established()) return id;
  }
  return std::nullopt;
}

std::optional<Clients::Clock::time_point> Clients::next_late() const {
  if (greetings_.empty()) return std::nullopt;
  return greetings_.front().first;
}

}  // namespace shampoo::store
