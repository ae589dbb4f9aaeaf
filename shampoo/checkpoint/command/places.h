// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace shampoo::checkpoint::command {

/// Whether the path is one checkpoint, by its content or its name, and no root.
/// Throws CheckpointError if there is no such folder; std::system_error.
bool is_checkpoint(const std::filesystem::path& path);

/// The path as it is. Throws CheckpointError for a checkpoint and as is_checkpoint() does.
std::filesystem::path root_at(const std::filesystem::path& path);

/// The path as it is, or of a root the latest complete checkpoint. Throws CheckpointError if there
/// is none, and as is_checkpoint() does.
std::filesystem::path checkpoint_at(const std::filesystem::path& path);

/// Whether a name is step-, followed by digits only.
bool is_step_name(const std::filesystem::path& name);

/// The last part of a path that is not empty.
std::filesystem::path name_at(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint::command
