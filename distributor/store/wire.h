// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "distributor/store/store.h"

namespace shampoo::store {

/// Requests of torch's TCPStore; the values are the numbers of releases from 2.2 on. The last two
/// are served by StoreServer only, as its answer to a CHECK of `extension_key` tells.
enum class Request : std::uint8_t {
  validate,
  set,
  compare_set,
  get,
  add,
  check,
  wait,
  count_keys,
  remove,
  append,
  multi_get,
  multi_set,
  cancel_wait,
  ping,
  find = 0x82,     ///< key; 1 and the value, or 0
  add_once = 0x83  ///< key, amount, 16 bytes that name this request; as ADD, but repeating is safe
};

/// Exists on every StoreServer, and on no other; FIND tells the 16 bytes that name its instance.
inline constexpr std::string_view extension_key = "/shampoo/store/find and add_once";
inline constexpr std::size_t request_name_bytes = 16;

/// With which connections from torch 2.2 on begin: VALIDATE and its word.
inline constexpr std::string_view validation{"\x00\xCE\xF7\x85\x3C", 5};
inline constexpr std::size_t most_key_bytes = 8192;
inline constexpr std::size_t most_value_bytes = std::size_t{8} << 20;
inline constexpr std::size_t most_keys = 131'072;  ///< limit per request
/// Limit of a whole request or reply, which torch does not limit.
inline constexpr std::size_t most_message_bytes = std::size_t{64} << 20;

/// Empty if the protocol has no such number. StoreProtocol::torch_1 stands for the numbers of
/// releases up to 1.13; those of 2.0 and 2.1 differ from 7 on.
std::optional<Request> request_of(std::uint8_t number, StoreProtocol protocol);

/// Builds a request or a reply. Numbers are little-endian; texts follow their 64-bit length.
class Message {
 public:
  Message() = default;
  /// Throws std::invalid_argument if the protocol has no such request.
  Message(Request request, StoreProtocol protocol);

  Message& byte(std::uint8_t value);
  Message& number(std::int64_t value);
  Message& text(std::string_view value);
  /// Their count, then each.
  Message& texts(std::span<const std::string> values);
  /// Without a length.
  Message& raw(std::string_view bytes);

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void append_number(std::string& bytes, std::int64_t value);
void append_text(std::string& bytes, std::string_view value);

/// Reads the first 8 bytes.
std::uint64_t read_number(std::string_view bytes);

}  // namespace shampoo::store
