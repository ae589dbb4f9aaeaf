// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/format/tensor_entry.h"

namespace shampoo::checkpoint {

std::optional<std::uint64_t> bytes_of(Dtype dtype, std::span<const std::int64_t> shape) {
  std::uint64_t count = 1;
  for (const std::int64_t side : shape)
    if (side < 0 || __builtin_mul_overflow(count, static_cast<std::uint64_t>(side), &count))
      return std::nullopt;
  std::uint64_t bits = 0;
  if (__builtin_mul_overflow(count, static_cast<std::uint64_t>(bits_of(dtype)), &bits) ||
      bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t most = 200;
  std::string result = "\"" + std::string(text.substr(0, most)) + "\"";
  for (char& letter : result)
    if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f) letter = '?';
  return text.size() > most ? result + "..." : result;
}

}  // namespace shampoo::checkpoint
