// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace shampoo::launcher {

/// What a worker wrote about its own end into the file that TORCHELASTIC_ERROR_FILE names.
struct ErrorFile {
  std::string message;
  std::string traceback;  ///< empty: none was given
  std::optional<std::chrono::system_clock::time_point> time;
  std::string content;  ///< the file's; not JSON where `broken`
  bool broken = false;  ///< `message` says why
};

/// Empty where there is no such file or no name. Never throws for what is in the file.
std::optional<ErrorFile> read_error_file(const std::filesystem::path& path);

/// Writes for the launcher that started us: `root`'s content, or `message` where there is none,
/// with `exit_code` as errorCode. Through a neighbour and a rename, so that readers see all of it
/// or nothing. Throws std::system_error.
void write_error_file(const std::filesystem::path& path, const std::optional<ErrorFile>& root,
                      const std::string& message, std::chrono::system_clock::time_point time,
                      int exit_code);

}  // namespace shampoo::launcher
