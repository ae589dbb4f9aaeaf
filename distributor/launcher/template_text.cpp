// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/template_text.h"

namespace shampoo::launcher {
namespace {

constexpr std::string_view first_letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
constexpr std::string_view later_letters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

/// At the beginning of `text`; empty: none.
std::string_view name_in(std::string_view text) {
  if (text.empty() || first_letters.find(text.front()) == std::string_view::npos) return {};
  return text.substr(0, text.find_first_not_of(later_letters));
}

}  // namespace

std::string fill_template(std::string_view text, const std::map<std::string, std::string>& values) {
  std::string result;
  while (!text.empty()) {
    const std::size_t dollar = text.find('$');
    result += text.substr(0, dollar);
    if (dollar == std::string_view::npos) break;
    text.remove_prefix(dollar);
    if (text.starts_with("$$")) {
      result += '$';
      text.remove_prefix(2);
      continue;
    }
    const bool braces = text.starts_with("${");
    const std::string_view name = name_in(text.substr(braces ? 2 : 1));
    const std::size_t length = name.size() + (braces ? 3 : 1);
    const bool closed = !braces || (text.size() >= length && text[length - 1] == '}');
    const auto found = values.find(std::string(name));
    if (name.empty() || !closed || found == values.end()) {
      result += '$';
      text.remove_prefix(1);
      continue;
    }
    result += found->second;
    text.remove_prefix(length);
  }
  return result;
}

}  // namespace shampoo::launcher
