// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/log_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace shampoo::launcher {
namespace {

namespace fs = std::filesystem;

/// A new folder whose name begins so, readable by its owner only, as Python's mkdtemp() makes it.
fs::path make_unique(const fs::path& beginning) {
  std::string pattern = beginning.string() + "_XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr)
    throw fs::filesystem_error("cannot make a folder", pattern,
                               std::error_code(errno, std::generic_category()));
  return pattern;
}

bool has_content(const fs::directory_entry& entry) {
  return entry.is_regular_file() && entry.file_size() > 0;
}

}  // namespace

LogFolder::LogFolder(const LaunchOptions& options) {
  if (options.log_folder == "/dev/null") return;
  if (!options.log_folder) temporary_ = make_unique(fs::temp_directory_path() / "shampoorun");
  const fs::path base = options.log_folder ? fs::path(*options.log_folder) : temporary_;
  fs::create_directories(base);
  std::string run = options.run_id;
  std::ranges::replace(run, '/', '_');
  path_ = make_unique(fs::absolute(base) / run);
}

LogFolder::~LogFolder() {
  if (temporary_.empty()) return;
  try {
    const fs::recursive_directory_iterator entries(temporary_);
    if (std::none_of(begin(entries), end(entries), has_content)) fs::remove_all(temporary_);
  } catch (const fs::filesystem_error&) {  // what cannot be read is kept
  }
}

fs::path LogFolder::worker(int attempt, int local_rank) const {
  if (path_.empty()) return {};
  const fs::path folder =
      path_ / ("attempt_" + std::to_string(attempt)) / std::to_string(local_rank);
  fs::create_directories(folder);
  return folder;
}

std::string LogFolder::error_file(int attempt, int local_rank) const {
  return path_.empty() ? "" : (worker(attempt, local_rank) / "error.json").string();
}

}  // namespace shampoo::launcher
