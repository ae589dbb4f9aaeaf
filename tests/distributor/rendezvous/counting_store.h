// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>

#include "tests/distributor/observed_store.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {

/// Counts the requests of all threads.
class CountingStore : public ObservedStore {
 public:
  CountingStore() : CountingStore(std::make_shared<MemoryStore>()) {}

  /// Number of keys.
  std::size_t size() const { return memory_->size(); }
  std::atomic<std::int64_t> requests = 0;

 private:
  explicit CountingStore(const std::shared_ptr<MemoryStore>& memory)
      : ObservedStore(memory, [this] { ++requests; }), memory_(memory) {}

  std::shared_ptr<MemoryStore> memory_;
};

}  // namespace shampoo::test
