// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "distributor/store/socket.h"

namespace shampoo::test {

/// From hexadecimal bytes; L(n) stands for the 8 bytes of a number, 'text' for its characters.
std::string bytes(std::string_view notation);
/// The request that opens a connection of torch 2.
std::string validate();

/// A connection to a port of this machine on which a test says every byte. Gives up after 20 s.
class RawClient {
 public:
  explicit RawClient(std::uint16_t port);

  void send(std::string_view bytes);
  /// Less than `size` where the server closes before.
  std::string receive(std::size_t size);
  /// Whether the server closes, without another byte.
  bool is_closed();
  /// Whether nothing comes for so long.
  bool is_silent(std::chrono::milliseconds duration);

 private:
  store::Socket socket_;
};

inline constexpr std::size_t mebibyte = std::size_t{1} << 20;

/// Of this process, now.
std::size_t resident_bytes();

}  // namespace shampoo::test
