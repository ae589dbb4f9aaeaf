// SPDX-License-Identifier: Apache-2.0
#include "grouping/table.h"

#include <algorithm>

namespace shampoo::grouping {
namespace {

/// Characters of a UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

std::string table(const Rows& rows, int left) {
  std::vector<std::size_t> widths(rows.empty() ? 0 : rows[0].size());
  for (const auto& row : rows)
    for (std::size_t c = 0; c < widths.size(); ++c)
      widths[c] = std::max(widths[c], width_of(row[c]));
  std::string lines;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string space(widths[c] - width_of(row[c]), ' ');
      const bool flush_left = c == 0 || c + left >= widths.size();
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

}  // namespace shampoo::grouping
