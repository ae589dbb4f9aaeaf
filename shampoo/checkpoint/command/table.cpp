// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/table.h"

#include <algorithm>
#include <utility>

namespace shampoo::checkpoint::command {
namespace {

/// Characters of a UTF-8 text.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
  }));
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  widths_.resize(columns_.size());
  add(std::move(titles));
}

void Table::add(std::vector<std::string> cells) {
  for (std::size_t i = 0; i < widths_.size(); ++i)
    widths_[i] = std::max(widths_[i], width_of(cells.at(i)));
  rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells) const {
  std::string line;
  for (std::size_t i = 0; i < widths_.size(); ++i) {
    const std::string fill(widths_[i] - width_of(cells[i]), ' ');
    line += columns_[i].align == Align::left ? cells[i] + fill : fill + cells[i];
    line += "  ";
  }
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

std::string Table::text() const {
  std::string text;
  for (const auto& row : rows_) text += line(row);
  return text;
}

}  // namespace shampoo::checkpoint::command
