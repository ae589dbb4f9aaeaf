// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace shampoo::grouping {

/// FNV-1a with 64 bits over a canonical encoding: integers as eight bytes, the lowest first; texts
/// as their length and their bytes. Equal on every machine and in every process.
class Hash {
 public:
  Hash& add(std::int64_t number) {
    for (int byte = 0; byte < 8; ++byte)
      mix(static_cast<unsigned char>(static_cast<std::uint64_t>(number) >> (8 * byte)));
    return *this;
  }

  Hash& add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    for (char letter : text) mix(static_cast<unsigned char>(letter));
    return *this;
  }

  std::uint64_t value() const { return value_; }

 private:
  void mix(unsigned char byte) { value_ = (value_ ^ byte) * 0x100000001b3u; }

  std::uint64_t value_ = 0xcbf29ce484222325u;
};

}  // namespace shampoo::grouping
