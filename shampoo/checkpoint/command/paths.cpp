// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/paths.h"

#include <string>
#include <string_view>
#include <system_error>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::command {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

}  // namespace

bool is_step_name(const fs::path& name) {
  const std::string text = name.string();
  return text.starts_with(prefix) && text.size() > prefix.size() &&
         text.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
}

fs::path name_at(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole.filename() : whole.parent_path().filename();
}

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw CheckpointError(path.string() + ": no such folder");
  if (!fs::is_directory(status)) throw CheckpointError(path.string() + ": no folder");
  return fs::exists(fs::symlink_status(path / manifest_name)) || is_step_name(name_at(path));
}

fs::path directory_at(const fs::path& path) {
  if (is_checkpoint(path))
    throw CheckpointError(path.string() +
                          ": a checkpoint; name the folder that holds checkpoints instead");
  return path;
}

fs::path checkpoint_at(const fs::path& path) {
  if (is_checkpoint(path)) return path;
  const auto latest = latest_checkpoint(path);
  if (!latest) throw CheckpointError(path.string() + ": no complete checkpoint");
  return *latest;
}

}  // namespace shampoo::checkpoint::command
