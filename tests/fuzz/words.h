// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shampoo::fuzz {

/// The words of a command line: between line ends, none of which a word can have, nor NUL bytes.
inline std::vector<std::string> words_of(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> words;
  bool open = false;
  for (std::size_t i = 0; i < size; ++i) {
    if (!open) words.emplace_back();
    open = data[i] != '\n' && data[i] != '\0';
    if (open) words.back() += static_cast<char>(data[i]);
  }
  return words;
}

}  // namespace shampoo::fuzz
