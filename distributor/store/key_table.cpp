// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/key_table.h"

#include <utility>

namespace shampoo::store {

namespace {

/// With about what the containers need.
std::size_t cost(std::string_view key, std::string_view value) {
  constexpr std::size_t entry_bytes = 160;
  return entry_bytes + key.size() + value.size();
}

}  // namespace

const std::string* KeyTable::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second.value;
}

bool KeyTable::set(std::string_view key, std::string value, const Account& account) {
  const auto found = values_.find(key);
  const std::size_t added = cost(key, value);
  const std::size_t removed = found == values_.end() ? 0 : cost(key, found->second.value);
  const auto share = bytes_of_.find(account.name);
  const bool renews = found != values_.end() && found->second.account == account.name;
  const std::size_t own = share == bytes_of_.end() ? 0 : share->second - (renews ? removed : 0);
  if (bytes_ - removed + added > most_bytes_) return false;
  if (!account.is_ours() && own + added > most_bytes_ / 2) return false;
  // What may need memory comes before anything counts.
  Entry entry{std::move(value), account.name};
  std::size_t& used = bytes_of_[account.name];
  const bool is_new = found == values_.end();
  if (is_new) values_.emplace(key, std::move(entry));
  bytes_ += added;
  used += added;
  if (is_new) return true;
  forget(*found);
  found->second = std::move(entry);
  return true;
}

bool KeyTable::remove(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  forget(*found);
  values_.erase(found);
  return true;
}

void KeyTable::remove_all_except(std::string_view prefix) {
  std::erase_if(values_, [&](const Entries::value_type& entry) {
    if (entry.first.starts_with(prefix)) return false;
    forget(entry);
    return true;
  });
}

void KeyTable::forget(const Entries::value_type& entry) {
  const std::size_t removed = cost(entry.first, entry.second.value);
  bytes_ -= removed;
  const auto share = bytes_of_.find(entry.second.account);
  if ((share->second -= removed) == 0) bytes_of_.erase(share);
}

}  // namespace shampoo::store
