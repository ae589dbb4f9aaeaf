// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>

#include "distributor/store/store.h"

namespace shampoo::launcher {

/// A store without a server, for a job of one node.
class LocalStore final : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    values_.insert_or_assign(std::string(key), std::string(value));
  }
  std::optional<std::string> get(std::string_view key) override {
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    const std::int64_t sum = std::stoll(get(key).value_or("0")) + amount;
    set(key, std::to_string(sum));
    return sum;
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    return values_.try_emplace(std::string(key), desired).first->second;
  }
  bool remove(std::string_view key) override { return values_.erase(std::string(key)) > 0; }
  /// Does not wait: nobody else could set a key.
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds) override {
    return std::ranges::all_of(keys, [&](const auto& key) { return values_.contains(key); });
  }
  void set_deadline(std::chrono::milliseconds) override {}
  std::string description() const override { return "this process"; }

 private:
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace shampoo::launcher
