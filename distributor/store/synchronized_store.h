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
#include "distributor/system/time_left.h"

namespace shampoo {

/// First-come, first-served mutex: a thread that unlocks and locks again at once does not starve
/// the others.
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

/// Shares a store among the threads of a communicator, which must be its only users.
class SynchronizedStore {
 public:
  explicit SynchronizedStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  /// Calls use(store) with the store locked and this deadline of each request.
  template <typename Use>
  auto within(std::chrono::milliseconds deadline, const Use& use) {
    const std::lock_guard lock(mutex_);
    store_->set_deadline(deadline);
    return use(*store_);
  }

 private:
  FairMutex mutex_;
  std::shared_ptr<Store> store_;
};

/// One thread's view of a synchronized store. The deadline of each request is `end`, but not less
/// than `reply_time` from now, so that a store that is alive can reply; wait() has its own.
class BoundedStore final : public Store {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds reply_time{250};

  BoundedStore(std::shared_ptr<SynchronizedStore> store, Clock::time_point end)
      : store_(std::move(store)), end_(end) {}

  /// Calls use(store) with the store locked.
  template <typename Use>
  auto request(const Use& use) const {
    return store_->within(time_left(end_, reply_time), use);
  }

  void set(std::string_view key, std::string_view value) override {
    request([&](Store& store) { store.set(key, value); });
  }
  std::optional<std::string> get(std::string_view key) override {
    return request([&](Store& store) { return store.get(key); });
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return request([&](Store& store) { return store.add(key, amount); });
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    return request([&](Store& store) { return store.set_if_absent(key, desired); });
  }
  bool remove(std::string_view key) override {
    return request([&](Store& store) { return store.remove(key); });
  }
  /// In slices, so that other threads can use the store in between.
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    using std::chrono::milliseconds;
    milliseconds slice{50};
    for (const auto end = Clock::now() + longest;;
         slice = std::min(2 * slice, milliseconds(2000))) {
      const milliseconds some = std::min(time_left(end), slice);
      if (request([&](Store& store) { return store.wait(keys, some); })) return true;
      if (Clock::now() >= end) return false;
    }
  }
  void set_deadline(std::chrono::milliseconds deadline) override { end_ = Clock::now() + deadline; }
  std::string description() const override {
    return request([](const Store& store) { return store.description(); });
  }

 private:
  std::shared_ptr<SynchronizedStore> store_;
  Clock::time_point end_;
};

}  // namespace shampoo
