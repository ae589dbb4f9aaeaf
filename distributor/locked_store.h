// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "distributor/store/store.h"

namespace shampoo {

/// A store for several threads of this library; whoever else uses the store must not do so at the
/// same time.
class LockedStore {
 public:
  explicit LockedStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  /// Calls use(store) with the store locked.
  template <typename Use>
  auto with(const Use& use) {
    const std::lock_guard lock(mutex_);
    return use(*store_);
  }

  /// As Store::wait(), but lets other threads in between.
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) {
    using Clock = std::chrono::steady_clock;
    using std::chrono::milliseconds;
    for (const auto end = Clock::now() + longest;;) {
      const auto left = std::chrono::ceil<milliseconds>(end - Clock::now());
      const milliseconds slice = std::clamp(left, milliseconds(0), milliseconds(50));
      if (with([&](Store& store) { return store.wait(keys, slice); })) return true;
      if (Clock::now() >= end) return false;
    }
  }

 private:
  std::mutex mutex_;
  std::shared_ptr<Store> store_;
};

}  // namespace shampoo
