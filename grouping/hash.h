// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace shampoo::grouping {

/// XXH3 with 64 bits and seed 0 of bytes that come in parts; equal on every machine and in every
/// process. Does not allocate.
class Hash {
 public:
  Hash() { restart(); }

  void add(std::span<const std::byte> bytes);
  void add(std::string_view text) { add(std::as_bytes(std::span(text))); }

  /// Its eight bytes, the lowest first.
  void add(std::uint64_t word) {
    if (word_count_ == words_.size()) flush();
    words_[word_count_++] = word;
  }
  void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  /// Two words: whether there is a number, and the number or 0.
  void add(const std::optional<double>& number) {
    add(std::uint64_t{number.has_value()});
    add(number.value_or(0));
  }

  /// Hash of everything added since construction or the last restart().
  std::uint64_t value() const;
  /// Forgets everything added.
  void restart();

 private:
  void flush();

  alignas(64) std::array<std::byte, 576> state_;  ///< of xxHash
  std::array<std::uint64_t, 32> words_;           ///< added, and not yet part of the state
  std::size_t word_count_ = 0;
};

/// The hash of all these bytes.
std::uint64_t hash(std::span<const std::byte> bytes);
std::uint64_t hash(std::string_view text);

}  // namespace shampoo::grouping
