// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "distributor/launcher/command_line/launch_options.h"

namespace shampoo::launcher {

/// The folder `<log-dir>/<run id>_<random>` of one run of the launcher.
class LogFolder {
 public:
  /// Creates it. Throws std::filesystem::filesystem_error.
  explicit LogFolder(const LaunchOptions& options);
  /// Removes a temporary folder without any content.
  ~LogFolder();
  LogFolder(const LogFolder&) = delete;
  LogFolder& operator=(const LogFolder&) = delete;

  /// Empty for --log-dir=/dev/null.
  const std::filesystem::path& path() const { return path_; }

  /// `attempt_<n>/<local rank>`, created if missing; empty for --log-dir=/dev/null.
  std::filesystem::path worker(int attempt, int local_rank) const;
  /// `attempt_<n>/<local rank>/error.json`, for TORCHELASTIC_ERROR_FILE; empty as above.
  std::string error_file(int attempt, int local_rank) const;

 private:
  std::filesystem::path path_;
  std::filesystem::path temporary_;  ///< what to remove; empty: nothing
};

}  // namespace shampoo::launcher
