// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::checkpoint {

using Json = nlohmann::json;

/// Memory of a JSON value, in units of about 16 bytes: a number takes 1, everything else more.
inline constexpr std::size_t few_units = 1 << 14, many_units = 1 << 24;
/// Of an object or a list without its elements; of a field's name beside its text.
inline constexpr std::size_t units_of_list = 8, units_of_field = 4;
/// Of a text.
inline std::size_t text_units(std::string_view text) { return 4 + text.size() / 16; }

/// A member of the JSON object that is read.
struct JsonMember {
  enum class Form : std::uint8_t {
    value,  ///< is taken whole
    rows    ///< a list, of which one element after the other is taken
  };
  std::string_view name;
  Form form = Form::value;
  std::size_t most_rows = 1;
  std::size_t most_units = few_units;  ///< of the value, or of each element
  std::function<void(const Json&)> take;
};

/// Parses a JSON object and hands out its members in the order of the text, never more than one
/// element at a time; unknown members are skipped. Throws CheckpointError for text that is no JSON
/// object in UTF-8; for members of `members`, and fields inside them, that occur twice; for more
/// elements or larger ones than a member allows, and more than 6 levels of nesting in one. Returns
/// for each member whether it was there.
std::vector<bool> parse_members(std::string_view text, const std::vector<JsonMember>& members);

}  // namespace shampoo::checkpoint
