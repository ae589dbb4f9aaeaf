// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::checkpoint::command {

/// Keeps the order of the fields.
using Json = nlohmann::ordered_json;

/// On its own lines, whatever bytes its texts have.
std::string to_text(const Json& json);

/// Replaces control characters, line ends included, by '?': names from a file must not send escape
/// sequences to the terminal.
std::string printable(std::string_view text);
std::string path_text(const std::filesystem::path& path);

/// "1 tensor", "2 tensors".
std::string counted(std::uint64_t count, const std::string& noun);
/// "2x3"; "scalar".
std::string shape_text(const std::vector<std::int64_t>& shape);

}  // namespace shampoo::checkpoint::command
