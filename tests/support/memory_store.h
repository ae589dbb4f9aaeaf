// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>

#include "distributor/store/store.h"

namespace shampoo::test {

/// A store in this process, safe for concurrent use by all threads.
class MemoryStore : public Store {
 public:
  void set(std::string_view key, std::string_view value) override {
    const std::lock_guard lock(mutex_);
    values_.insert_or_assign(std::string(key), std::string(value));
    changed_.notify_all();
  }

  std::optional<std::string> get(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    std::string& value = values_[std::string(key)];
    std::int64_t sum = 0;
    std::from_chars(value.data(), value.data() + value.size(), sum);
    sum += amount;
    value = std::to_string(sum);
    changed_.notify_all();
    return sum;
  }

  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    const std::lock_guard lock(mutex_);
    const auto [value, is_new] = values_.try_emplace(std::string(key), desired);
    if (is_new) changed_.notify_all();
    return value->second;
  }

  bool remove(std::string_view key) override {
    const std::lock_guard lock(mutex_);
    return values_.erase(std::string(key)) > 0;
  }

  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, longest, [&] {
      for (const std::string& key : keys)
        if (!values_.contains(key)) return false;
      return true;
    });
  }

  void set_deadline(std::chrono::milliseconds) override {}
  std::string description() const override { return "memory of this process"; }

  /// Number of keys.
  std::size_t size() {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
};

}  // namespace shampoo::test
