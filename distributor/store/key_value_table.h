// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shampoo::store {

/// The keys, values and queues of a store. What would need more memory than allowed is refused
/// and changes nothing.
class Table {
 public:
  using Values = std::map<std::string, std::string, std::less<>>;

  explicit Table(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  const Values& values() const { return values_; }
  /// Null where there is none.
  const std::string* find(std::string_view key) const;
  /// Whether there is a value, or a queue that is not empty.
  bool has(std::string_view key) const;
  std::size_t queue_length(std::string_view key) const;

  /// False: refused.
  bool set(std::string_view key, std::string_view value);
  bool append(std::string_view key, std::string_view value);
  bool push(std::string_view key, std::string_view value);
  /// The sum, which wraps. Empty: refused, also where the value does not begin with a number.
  std::optional<std::int64_t> add(std::string_view key, std::int64_t amount);

  /// Whether there was one.
  bool remove(std::string_view key);
  std::optional<std::string> pop(std::string_view key);
  /// All values and queues whose keys do not begin with `prefix`.
  void remove_except(std::string_view prefix);

 private:
  bool reserve(std::size_t bytes);

  std::size_t most_bytes_, bytes_ = 0;
  Values values_;
  std::map<std::string, std::deque<std::string>, std::less<>> queues_;
};

}  // namespace shampoo::store
