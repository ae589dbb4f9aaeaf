// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "distributor/store/store.h"

namespace shampoo {

/// A mutex that threads get in the order in which they asked: one that waits in slices, and asks
/// again at once, keeps nobody out.
class FairMutex {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t ticket = last_++;
    turn_.wait(lock, [&] { return ticket == now_; });
  }

  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++now_;
    }
    turn_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable turn_;
  std::uint64_t last_ = 0, now_ = 0;
};

/// A store for several threads of this library; whoever else uses the store must not do so at the
/// same time.
class LockedStore {
 public:
  /// `usual` is the deadline of a request.
  LockedStore(std::shared_ptr<Store> store, std::chrono::milliseconds usual)
      : store_(std::move(store)), usual_(usual) {
    store_->set_deadline(usual);
  }

  /// Calls use(store) with the store locked.
  template <typename Use>
  auto with(const Use& use) {
    const std::lock_guard lock(mutex_);
    return use(*store_);
  }

  /// The usual deadline of a request.
  void set_deadline(std::chrono::milliseconds deadline) {
    const std::lock_guard lock(mutex_);
    store_->set_deadline(deadline);
    usual_ = deadline;
  }

  /// As with(), with another deadline for its requests. Also where use throws, the usual one is
  /// back after it.
  template <typename Use>
  auto within(std::chrono::milliseconds deadline, const Use& use) {
    struct Restored {
      Store& store;
      std::chrono::milliseconds usual;
      ~Restored() { store.set_deadline(usual); }
    };
    const std::lock_guard lock(mutex_);
    const Restored restored{*store_, usual_};
    store_->set_deadline(deadline);
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
  FairMutex mutex_;
  std::shared_ptr<Store> store_;
  std::chrono::milliseconds usual_;
};

}  // namespace shampoo
