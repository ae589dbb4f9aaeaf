// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/text.h"

#include "grouping/joined.h"

namespace shampoo::checkpoint::command {

std::string to_text(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string printable(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    // U+0080 to U+009F are control characters too.
    const bool control = byte == 0xc2 && next >= 0x80 && next < 0xa0;
    if (control) ++i;
    result += control || byte < 0x20 || byte == 0x7f ? '?' : static_cast<char>(byte);
  }
  return result;
}

std::string path_text(const std::filesystem::path& path) { return printable(path.string()); }

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  return shape.empty() ? "scalar" : grouping::joined(shape, "x");
}

}  // namespace shampoo::checkpoint::command
