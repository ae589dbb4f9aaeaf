// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shampoo::joining {

/// What a process tells the others about itself.
struct Hello {
  int protocol = 1;  ///< of joining
  int rank = 0, size = 1;
  std::string library = {};  ///< its version
  std::string build = {};    ///< free text
  std::string host = {};
  std::int64_t process = 0;  ///< its id on its host
  std::string nonce = {};    ///< names this attempt of this process, see random_id()
  std::string fault = {};    ///< why it cannot take part, which all are to hear; empty: it can
};

/// Control characters in texts become spaces.
std::string text_of(const Hello& hello);

/// Empty for what is no such text. Later protocols may append lines.
std::optional<Hello> hello_of(std::string_view text);

/// "rank 2 (host node7, process 4711)".
std::string name_of(const Hello& hello);

/// Why the two cannot work together; empty where they can. Their ranks are not compared.
std::string misfit(const Hello& one, const Hello& other);

/// 16 random bytes as 32 hexadecimal digits.
std::string random_id();
bool is_id(std::string_view text);

}  // namespace shampoo::joining
