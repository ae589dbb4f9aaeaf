// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace shampoo {

/// A message authentication code, HMAC-SHA-256 (RFC 2104, FIPS 180-4): 32 bytes that only those who
/// know the key can compute.
std::string hmac_sha256(std::string_view key, std::string_view message);

/// Whether the texts are equal, in a time that depends on their sizes only.
bool equal_in_constant_time(std::string_view one, std::string_view other);

/// Two lower-case digits for each byte.
std::string hexadecimal(std::string_view bytes);

/// Bytes from the system's generator for keys, which nobody can predict. Throws std::system_error.
std::string random_bytes(std::size_t count);

}  // namespace shampoo
