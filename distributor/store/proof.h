// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "distributor/system/environment.h"

namespace shampoo::store {

// A client and a server show each other that they know the job's secret, which itself never
// travels. After VALIDATE:
//
//   client   0x80, 32 random bytes c
//   server   32 random bytes s, HMAC(secret, "server" c s)
//   client   0x81, HMAC(secret, "client" c s)
//   server   0
//
// A server that has a secret closes the connection at any other request before the last line, one
// that has none at the first; torch's servers close it, too.

inline constexpr std::uint8_t challenge_number = 0x80, proof_number = 0x81;
inline constexpr std::size_t challenge_bytes = 32, proof_bytes = 32;

/// `challenges`: that of the client, then that of the server.
std::string server_proof(std::string_view secret, std::string_view challenges);
std::string client_proof(std::string_view secret, std::string_view challenges);

/// Throws std::invalid_argument for a secret of less than 16 bytes, which could be guessed. "" is
/// none.
void check_secret(std::string_view secret);

/// The secret of this process's job: SHAMPOO_JOB_SECRET, or the file SHAMPOO_JOB_SECRET_FILE
/// without blanks around its text; "" if neither is set. Throws std::invalid_argument if both are,
/// the file cannot be read, or the secret has less than 16 bytes.
std::string job_secret(const Environment& environment);
/// 64 random hexadecimal digits.
std::string new_job_secret();

}  // namespace shampoo::store
