// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "distributor/store/store.h"

namespace shampoo::test {

/// A store, and what happens before each of its requests.
class ObservedStore : public Store {
 public:
  ObservedStore(std::shared_ptr<Store> store, std::function<void()> before)
      : store_(std::move(store)), before_(std::move(before)) {}

  void set(std::string_view key, std::string_view value) override { asked().set(key, value); }
  std::optional<std::string> get(std::string_view key) override { return asked().get(key); }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    return asked().add(key, amount);
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    return asked().set_if_absent(key, desired);
  }
  bool remove(std::string_view key) override { return asked().remove(key); }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    return asked().wait(keys, longest);
  }
  void set_deadline(std::chrono::milliseconds time) override { store_->set_deadline(time); }
  std::string description() const override { return store_->description(); }

 private:
  Store& asked() {
    before_();
    return *store_;
  }

  std::shared_ptr<Store> store_;
  std::function<void()> before_;
};

}  // namespace shampoo::test
