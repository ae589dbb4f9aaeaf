// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::grouping {

/// Rows of cells. All rows of a table have as many cells as its first one.
using Rows = std::vector<std::vector<std::string>>;

/// The rows as lines, indented by two spaces: the first column and the last `left` columns
/// flush left, the others flush right.
std::string table(const Rows& rows, int left = 0);

/// The text in lines of at most `width` bytes, broken after a space, comma, semicolon or closing
/// bracket where there is one, each line with `indent` spaces before it. Breaks in the text stay.
std::string wrap(std::string_view text, int width, int indent);

/// A count with a comma at every third digit: 12,345.
std::string count_text(std::int64_t count);

/// Bytes with one decimal and a binary unit: 1.5 MiB.
std::string bytes_text(std::int64_t bytes);

/// a / b with three decimals, rounded to the nearest; "-" where b is 0.
std::string ratio_text(std::int64_t a, std::int64_t b);

}  // namespace shampoo::grouping
