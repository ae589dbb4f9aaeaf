// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/text.h"

#include <array>
#include <cstdio>

#include "shampoo/checkpoint/format/tensor_entry.h"

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

std::string shortened(std::string_view text) {
  constexpr std::size_t most = 60;
  if (text.size() <= most) return printable(text);
  std::size_t end = most - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return printable(text.substr(0, end)) + "...";
}

std::string path_text(const std::filesystem::path& path) { return printable(path.string()); }

std::string counted(std::uint64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  auto amount = static_cast<double>(bytes);
  for (; amount >= 1024 && unit + 1 < units.size(); ++unit) amount /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
  return text.data();
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t side : shape) text += (text.empty() ? "" : "x") + std::to_string(side);
  return text.empty() ? "scalar" : text;
}

std::string box_text(const grouping::Box& box, const std::vector<std::int64_t>& shape) {
  if (box.extent == shape) return "all";
  std::string text;
  for (std::size_t side = 0; side < shape.size(); ++side)
    text += (text.empty() ? "[" : ", ") + std::to_string(box.offset[side]) + ":" +
            std::to_string(box.offset[side] + box.extent[side]);
  return text + "]";
}

std::string type_text(const SavedTensor& tensor) {
  return std::string(name_of(tensor.dtype)) + " " + shape_text(tensor.shape);
}

std::uint64_t bytes_of(const SavedTensor& tensor) {
  return checkpoint::bytes_of(tensor.dtype, tensor.shape).value_or(0);
}

}  // namespace shampoo::checkpoint::command
