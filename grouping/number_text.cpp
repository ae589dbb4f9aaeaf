// SPDX-License-Identifier: Apache-2.0
#include "grouping/number_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "grouping/joined.h"

namespace shampoo::grouping {
namespace {

__extension__ using Wide = __int128;

/// a / b with so many decimals, rounded to the nearest. Both are >= 0, b is not 0.
std::string quotient(std::uint64_t a, std::uint64_t b, int decimals) {
  std::int64_t unit = 1;
  for (int d = 0; d < decimals; ++d) unit *= 10;
  const Wide scaled = (Wide{a} * unit * 2 + b) / (Wide{b} * 2);
  const std::string rest = std::to_string(static_cast<std::int64_t>(scaled % unit));
  return count_text(static_cast<std::int64_t>(scaled / unit)) + "." +
         std::string(decimals - rest.size(), '0') + rest;
}

}  // namespace

std::string exact_text(double number) {
  if (std::isnan(number)) return "nan";
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr};
}

std::string hexadecimal(std::uint64_t number) {
  std::string text(16, '0');
  for (auto digit = text.rbegin(); digit != text.rend(); ++digit, number >>= 4)
    *digit = "0123456789abcdef"[number & 0xf];
  return text;
}

std::optional<std::uint64_t> from_hexadecimal(std::string_view text) {
  std::uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number, 16);
  if (hexadecimal(number) != text) return std::nullopt;
  return number;
}

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const int first = count < 0 ? 1 : 0;
  for (int place = static_cast<int>(digits.size()) - 3; place > first; place -= 3)
    digits.insert(place, 1, ',');
  return digits;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return count_text(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array units = {" KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  std::size_t unit = 0;
  std::uint64_t size = 1024;
  while (unit + 1 < units.size() && bytes / size >= 1024) {
    size *= 1024;
    ++unit;
  }
  return quotient(bytes, size, 1) + units[unit];
}

std::string shape_text(std::span<const std::int64_t> shape) {
  return "(" + joined(shape, ", ") + ")";
}

std::string ratio_text(std::int64_t a, std::int64_t b) {
  return b == 0 ? "-" : quotient(static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(b), 3);
}

}  // namespace shampoo::grouping
