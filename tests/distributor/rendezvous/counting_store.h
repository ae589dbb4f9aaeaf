// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>

#include "tests/support/memory_store.h"

namespace shampoo::test {

/// Counts the requests of all threads.
class CountingStore : public MemoryStore {
 public:
  void set(std::string_view key, std::string_view value) override {
    ++requests;
    MemoryStore::set(key, value);
  }
  std::optional<std::string> get(std::string_view key) override {
    ++requests;
    return MemoryStore::get(key);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    ++requests;
    return MemoryStore::add(key, amount);
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    ++requests;
    return MemoryStore::set_if_absent(key, desired);
  }
  bool remove(std::string_view key) override {
    ++requests;
    return MemoryStore::remove(key);
  }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    ++requests;
    return MemoryStore::wait(keys, longest);
  }

  std::atomic<std::int64_t> requests = 0;
};

}  // namespace shampoo::test
