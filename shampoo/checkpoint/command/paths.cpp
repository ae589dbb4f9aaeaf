// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/command/paths.h"

#include <system_error>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/checkpoint_folder.h"
#include "shampoo/checkpoint/storage/directory_operations.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint::command {

namespace fs = std::filesystem;

bool is_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) throw CheckpointError(path.string() + ": no such folder");
  if (!fs::is_directory(status)) throw CheckpointError(path.string() + ": no folder");
  return fs::exists(fs::symlink_status(path / manifest_name)) || step_of(whole_path(path));
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
