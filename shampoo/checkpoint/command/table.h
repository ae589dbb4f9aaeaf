// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace shampoo::checkpoint::command {

enum class Align : std::uint8_t { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

/// Lines of aligned cells below their titles.
class Table {
 public:
  explicit Table(std::vector<Column> columns);

  /// One cell per column.
  void add(std::vector<std::string> cells);
  /// Without blanks at the ends of lines; only the titles where nothing was added.
  std::string text() const;

 private:
  std::string line(const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<std::size_t> widths_;  ///< in characters
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace shampoo::checkpoint::command
