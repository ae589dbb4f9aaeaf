// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "grouping/number_text.h"

namespace shampoo::grouping {

/// Rows of UTF-8 cells, the titles first. All rows of a table have as many cells as the first.
using Rows = std::vector<std::vector<std::string>>;

/// The rows as lines without trailing spaces, two spaces before every column. The first column and
/// the last `left` columns are flush left, the others flush right.
std::string table(const Rows& rows, int left = 0);

/// The text in lines of at most `width` bytes, broken after a space, comma, semicolon or closing
/// bracket where there is one, each line with `indent` spaces before it. Breaks in the text stay.
std::string wrap(std::string_view text, int width, int indent);

}  // namespace shampoo::grouping
