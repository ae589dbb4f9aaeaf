// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace shampoo::launcher {

/// A worker's own report of its failure, from the file that TORCHELASTIC_ERROR_FILE names.
struct ErrorFile {
  std::string message;
  std::string traceback;  ///< empty: none
  std::optional<std::chrono::system_clock::time_point> time;
  bool broken = false;  ///< not readable; `message` explains
};

/// Empty where there is no such file or no name. Does not throw for broken content.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

}  // namespace shampoo::launcher
