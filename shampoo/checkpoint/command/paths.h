// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace shampoo::checkpoint::command {

/// The path is one checkpoint, by its content or its name, and not a directory of checkpoints.
/// Throws CheckpointError if there is no such folder; std::system_error.
bool is_checkpoint(const std::filesystem::path& path);

/// The path as it is. Throws CheckpointError for a checkpoint and as is_checkpoint() does.
std::filesystem::path directory_at(const std::filesystem::path& path);

/// The path as it is, or of a directory the latest complete checkpoint. Throws CheckpointError if
/// there is none, and as is_checkpoint() does.
std::filesystem::path checkpoint_at(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint::command
