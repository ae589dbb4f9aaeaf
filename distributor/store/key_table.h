// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

namespace shampoo::store {

/// Who is accountable for what a client uses: the host that it connects from. Clients that have
/// proved the job's secret are one, ours().
struct Account {
  std::string name;

  static Account ours() { return {""}; }
  bool is_ours() const { return name.empty(); }
};

/// Keys and values, of bounded size: `most_bytes` in all, at most half of that from one account
/// that is not ours.
class KeyTable {
 public:
  explicit KeyTable(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Null if there is no such key.
  const std::string* find(std::string_view key) const;
  /// False, and nothing changes, if there is no room.
  bool set(std::string_view key, std::string value, const Account& account);
  bool remove(std::string_view key);
  void remove_all_except(std::string_view prefix);

  std::size_t size() const { return values_.size(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::string value, account;
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  void forget(const Entries::value_type& entry);

  std::size_t most_bytes_, bytes_ = 0;
  Entries values_;
  std::unordered_map<std::string, std::size_t> bytes_of_;  ///< by account
};

}  // namespace shampoo::store
