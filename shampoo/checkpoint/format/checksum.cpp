// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/checksum.h"

#include <xxhash.h>

#include <charconv>

namespace shampoo::checkpoint {

struct Checksum::State {
  XXH3_state_t words;
};

Checksum::Checksum() : state_(std::make_unique<State>()) { restart(); }
Checksum::Checksum(Checksum&& other) noexcept = default;
Checksum& Checksum::operator=(Checksum&& other) noexcept = default;
Checksum::~Checksum() = default;

void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(&state_->words, bytes.data(), bytes.size());
}

std::uint64_t Checksum::value() const { return XXH3_64bits_digest(&state_->words); }

void Checksum::restart() { XXH3_64bits_reset(&state_->words); }

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t checksum(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string hexadecimal(std::uint64_t number) {
  constexpr int digits = 16;
  std::string text(digits, '0');
  for (int digit = digits - 1; digit >= 0; --digit, number >>= 4)
    text[digit] = "0123456789abcdef"[number & 0xf];
  return text;
}

std::optional<std::uint64_t> from_hexadecimal(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (hexadecimal(number) != text) return std::nullopt;
  return number;
}

}  // namespace shampoo::checkpoint
