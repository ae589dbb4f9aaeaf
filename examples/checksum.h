// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace examples {

/// The hash FNV-1a in 64 bits. `before` is the hash of the bytes that come first; unless given,
/// there are none.
inline std::uint64_t checksum(std::span<const std::byte> bytes,
                              std::uint64_t before = 0xcbf29ce484222325) {
  for (const std::byte byte : bytes) {
    before ^= std::to_integer<std::uint64_t>(byte);
    before *= 0x100000001b3;
  }
  return before;
}

}  // namespace examples
