// SPDX-License-Identifier: Apache-2.0
#include "grouping/table.h"

#include <algorithm>
#include <array>

namespace shampoo::grouping {
namespace {

__extension__ using Wide = __int128;

/// a / b with so many decimals, rounded to the nearest. Both are >= 0, b is not 0.
std::string quotient(std::int64_t a, std::int64_t b, int decimals) {
  std::int64_t unit = 1;
  for (int d = 0; d < decimals; ++d) unit *= 10;
  const Wide scaled = (Wide{a} * unit * 2 + b) / (Wide{b} * 2);
  const std::string rest = std::to_string(static_cast<std::int64_t>(scaled % unit));
  return count_text(static_cast<std::int64_t>(scaled / unit)) + "." +
         std::string(decimals - rest.size(), '0') + rest;
}

}  // namespace

std::string table(const Rows& rows, int left) {
  const std::size_t columns = rows.empty() ? 0 : rows[0].size();
  std::vector<std::size_t> widths(columns);
  for (const auto& row : rows)
    for (std::size_t c = 0; c < columns; ++c) widths[c] = std::max(widths[c], row[c].size());

  std::string lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < columns; ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      const bool flush_left = c == 0 || c + left >= columns;
      line += "  " + (flush_left ? row[c] + space : space + row[c]);
    }
    lines += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return lines;
}

std::string wrap(std::string_view text, int width, int indent) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::size_t length = end;
    if (length > static_cast<std::size_t>(width)) {
      const std::size_t separator = text.substr(0, width).find_last_of(" ,;)");
      length = separator == std::string_view::npos ? width : separator + 1;
    }
    const std::string_view line = text.substr(0, length);
    text.remove_prefix(length == end ? std::min(end + 1, text.size()) : length);
    lines += std::string(indent, ' ');
    lines += line.substr(0, line.find_last_not_of(' ') + 1);
    lines += '\n';
  }
  return lines;
}

std::string count_text(std::int64_t count) {
  std::string digits = std::to_string(count);
  const int first = count < 0 ? 1 : 0;
  for (int place = static_cast<int>(digits.size()) - 3; place > first; place -= 3)
    digits.insert(place, 1, ',');
  return digits;
}

std::string bytes_text(std::int64_t bytes) {
  constexpr std::array units = {" KiB", " MiB", " GiB", " TiB"};
  if (bytes < 1024) return std::to_string(bytes) + " B";
  std::size_t unit = 0;
  std::int64_t size = 1024;
  while (unit + 1 < units.size() && bytes / size >= 1024) {
    size *= 1024;
    ++unit;
  }
  return quotient(bytes, size, 1) + units[unit];
}

std::string ratio_text(std::int64_t a, std::int64_t b) { return b == 0 ? "-" : quotient(a, b, 3); }

}  // namespace shampoo::grouping
