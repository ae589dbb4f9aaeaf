// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

namespace shampoo::checkpoint {

/// Returns when the entries of the folder have reached the disk. Throws std::system_error.
void sync_folder(const std::filesystem::path& folder);

/// Throws std::system_error, also if the folder exists.
void make_folder(const std::filesystem::path& folder);

/// The folder and those above it that are missing, each synced into its parent. Throws
/// std::system_error.
void make_folders(const std::filesystem::path& folder);

/// Throws std::system_error.
void rename_entry(const std::filesystem::path& from, const std::filesystem::path& to);

/// With all that is in it; follows no link. Throws std::system_error.
void remove_folder(const std::filesystem::path& folder);

/// The folder that has `path` as an entry.
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
