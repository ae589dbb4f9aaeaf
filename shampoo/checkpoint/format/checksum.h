// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace shampoo::checkpoint {

/// XXH3 with 64 bits, seed 0, of bytes that come in parts.
class Checksum {
 public:
  Checksum();
  Checksum(Checksum&& other) noexcept;
  Checksum& operator=(Checksum&& other) noexcept;
  ~Checksum();

  void add(std::span<const std::byte> bytes);
  /// Of everything added since the start or the last restart().
  std::uint64_t value() const;
  void restart();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::uint64_t checksum(std::span<const std::byte> bytes);
std::uint64_t checksum(std::string_view text);

/// Sixteen lower-case hexadecimal digits, as manifests spell numbers that JSON readers would round.
std::string hexadecimal(std::uint64_t number);
/// Empty unless `text` is what hexadecimal() gives.
std::optional<std::uint64_t> from_hexadecimal(std::string_view text);

}  // namespace shampoo::checkpoint
