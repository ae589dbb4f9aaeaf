// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "distributor/store/store.h"

namespace shampoo {

/// The keys that any number of MemoryStores see.
struct SharedKeys {
  using Values = std::map<std::string, std::string, std::less<>>;
  std::mutex mutex;
  std::condition_variable changed;
  Values values;
  std::atomic<std::int64_t> requests = 0;

  /// Waits until come(values), which is asked after every change; gives up after 20 s.
  void wait_until(const std::function<bool(const Values&)>& come) {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(20), [&] { return come(values); });
  }
};

/// A store inside this process; one for each thread.
class MemoryStore : public Store {
 public:
  explicit MemoryStore(SharedKeys& keys) : keys_(keys) {}

  void set(std::string_view key, std::string_view value) override {
    const std::scoped_lock lock(keys_.mutex);
    ++keys_.requests;
    keys_.values.insert_or_assign(std::string(key), std::string(value));
    keys_.changed.notify_all();
  }

  std::optional<std::string> get(std::string_view key) override {
    const std::scoped_lock lock(keys_.mutex);
    ++keys_.requests;
    const auto found = keys_.values.find(key);
    return found == keys_.values.end() ? std::nullopt : std::optional(found->second);
  }

  std::int64_t add(std::string_view key, std::int64_t amount) override {
    const std::int64_t sum = std::stoll(get(key).value_or("0")) + amount;
    set(key, std::to_string(sum));
    return sum;
  }

  bool remove(std::string_view key) override {
    const std::scoped_lock lock(keys_.mutex);
    return keys_.values.erase(std::string(key)) > 0;
  }

  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    std::unique_lock lock(keys_.mutex);
    ++keys_.requests;
    return keys_.changed.wait_for(lock, longest, [&] {
      return std::ranges::all_of(keys, [&](const auto& key) { return keys_.values.contains(key); });
    });
  }

  void set_deadline(std::chrono::milliseconds) override {}
  std::string description() const override { return "in memory"; }

 private:
  SharedKeys& keys_;
};

}  // namespace shampoo
