// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/user_state_text.h"

#include <array>
#include <charconv>

namespace shampoo {

namespace {

constexpr std::string_view integer_kind = "integer ", number_kind = "number ", text_kind = "text ";

template <typename Number>
std::optional<Number> number_from(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

}  // namespace

std::string exact_text(double number) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::optional<double> double_from(std::string_view text) { return number_from<double>(text); }

std::optional<std::int64_t> integer_from(std::string_view text) {
  return number_from<std::int64_t>(text);
}

std::string extra_text(const ExtraValue& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value))
    return std::string(integer_kind) + std::to_string(*integer);
  if (const auto* const number = std::get_if<double>(&value))
    return std::string(number_kind) + exact_text(*number);
  return std::string(text_kind) + std::get<std::string>(value);
}

std::optional<ExtraValue> extra_from(std::string_view text) {
  if (text.starts_with(text_kind)) return std::string(text.substr(text_kind.size()));
  if (text.starts_with(integer_kind)) {
    const auto integer = integer_from(text.substr(integer_kind.size()));
    if (integer) return *integer;
  }
  if (text.starts_with(number_kind)) {
    const auto number = double_from(text.substr(number_kind.size()));
    if (number) return *number;
  }
  return std::nullopt;
}

}  // namespace shampoo
