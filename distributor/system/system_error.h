// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>

namespace shampoo {

/// An error whose what() is `text`, with what the code means at its end: std::system_error appends
/// that, also where it is there already.
inline std::system_error system_error(std::error_code code, std::string text) {
  const std::string meaning = ": " + code.message();
  if (text.ends_with(meaning)) text.resize(text.size() - meaning.size());
  return {code, text};
}

}  // namespace shampoo
