// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/dtype.h"
#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint::command {

/// Keeps the order of the fields.
using Json = nlohmann::ordered_json;

/// On its own lines, whatever bytes its texts have.
std::string to_text(const Json& json);

/// Without what a terminal would obey: control characters, line ends too, become '?'.
std::string printable(std::string_view text);
/// The same, and cut where it would fill the line.
std::string shortened(std::string_view text);
std::string path_text(const std::filesystem::path& path);

/// "1 tensor", "2 tensors".
std::string counted(std::uint64_t count, const std::string& noun);
/// "17 B", "1.5 MiB".
std::string size_text(std::uint64_t bytes);
/// "2x3"; "scalar".
std::string shape_text(const std::vector<std::int64_t>& shape);
/// "[0:2, 3:5]", or "all" of a tensor.
std::string box_text(const grouping::Box& box, const std::vector<std::int64_t>& shape);
/// "F32 2x3".
std::string type_text(const SavedTensor& tensor);

/// Of all its pieces together.
std::uint64_t bytes_of(const SavedTensor& tensor);

}  // namespace shampoo::checkpoint::command
