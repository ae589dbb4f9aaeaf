// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shampoo {

/// Keys and values that all processes of a job see: how ranks find each other.
///
/// Every member function waits for the store's answer and throws CommunicationError when the store
/// does not answer before the deadline, which names the store's address. Not safe for concurrent
/// calls. Keys are arbitrary bytes; values have at most 8 MiB.
class Store {
 public:
  virtual ~Store() = default;

  virtual void set(std::string_view key, std::string_view value) = 0;
  /// Empty where there is no such key. Does not wait for the key.
  virtual std::optional<std::string> get(std::string_view key) = 0;
  /// Adds to a decimal counter, 0 where there is none; returns the sum.
  virtual std::int64_t add(std::string_view key, std::int64_t amount) = 0;
  /// Whether there was such a key.
  virtual bool remove(std::string_view key) = 0;
  /// Whether all keys are there before so long; 0: at once.
  virtual bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) = 0;

  /// Of one request.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;
  /// For messages: "host:port, protocol of torch 2.2 and later".
  virtual std::string description() const = 0;
};

}  // namespace shampoo
