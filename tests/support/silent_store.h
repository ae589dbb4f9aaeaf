// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <utility>

#include "distributor/communicator.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {

/// Whether a store answers, for all its clients.
class Silence {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    is_silent_ = true;
  }
  /// Waits for a reply until `deadline` is over; throws CommunicationError while silent.
  void await_reply(std::chrono::milliseconds deadline) {
    std::unique_lock lock(mutex_);
    if (!is_silent_) return;
    ++requests_;
    longest_ = std::max(longest_, deadline);
    never_.wait_for(lock, deadline, [] { return false; });
    throw CommunicationError("the store did not reply in time");
  }
  /// That got no reply.
  int requests() {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  /// Deadline of those.
  std::chrono::milliseconds longest() {
    const std::lock_guard lock(mutex_);
    return longest_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable never_;
  bool is_silent_ = false;
  int requests_ = 0;
  std::chrono::milliseconds longest_{};
};

/// A client of a store that may fall silent, as one of a server that is stopped.
class SilentStore final : public Store {
 public:
  SilentStore(std::shared_ptr<Store> store, std::shared_ptr<Silence> silence)
      : store_(std::move(store)), silence_(std::move(silence)) {}

  void set(std::string_view key, std::string_view value) override {
    silence_->await_reply(deadline_);
    store_->set(key, value);
  }
  std::optional<std::string> get(std::string_view key) override {
    silence_->await_reply(deadline_);
    return store_->get(key);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    silence_->await_reply(deadline_);
    return store_->add(key, amount);
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    silence_->await_reply(deadline_);
    return store_->set_if_absent(key, desired);
  }
  bool remove(std::string_view key) override {
    silence_->await_reply(deadline_);
    return store_->remove(key);
  }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    silence_->await_reply(longest + deadline_);
    return store_->wait(keys, longest);
  }
  void set_deadline(std::chrono::milliseconds deadline) override { deadline_ = deadline; }
  std::string description() const override { return store_->description(); }

 private:
  const std::shared_ptr<Store> store_;
  const std::shared_ptr<Silence> silence_;
  std::chrono::milliseconds deadline_{};
};

}  // namespace shampoo::test
