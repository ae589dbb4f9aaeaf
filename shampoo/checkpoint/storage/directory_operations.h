// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <system_error>

namespace shampoo::checkpoint {

/// There is an entry of this name, if only a link that leads nowhere. Throws std::system_error.
bool is_there(const std::filesystem::path& path);

/// An error that says that another host has removed what was open here (ESTALE of NFS), and there
/// is no entry `path` any more. Throws std::system_error.
bool is_gone(std::error_code error, const std::filesystem::path& path);

/// Returns when the entries of the folder have reached the disk, as far as its file system can say
/// so: some have no fsync for folders (EINVAL, ENOTSUP). Throws std::system_error.
void sync_folder(const std::filesystem::path& folder);

/// A folder whose name nobody else has: if it exists, the call was answered twice. Throws
/// std::system_error.
void make_unique_folder(const std::filesystem::path& folder);

/// The folder and those above it that are missing, each synced into its parent, itself also if it
/// is there. Throws std::system_error.
void make_folders(const std::filesystem::path& folder);

/// Renames an entry whose name nobody else has. A call that was applied although it failed, as
/// network file systems may answer, succeeds. Throws std::system_error.
void rename_entry(const std::filesystem::path& from, const std::filesystem::path& to);
/// The same, and fails with EEXIST if `to` exists.
void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to);
/// Swaps two entries in one step; returns false where the file system cannot. Throws
/// std::system_error.
bool exchange_entries(const std::filesystem::path& a, const std::filesystem::path& b);

/// With all that is in it; follows no link. Throws std::system_error.
void remove_folder(const std::filesystem::path& folder);

/// Absolute, without parts "." and a slash at the end: equal for what is written alike.
std::filesystem::path whole_path(const std::filesystem::path& path);
/// The folder that has `path` as an entry.
std::filesystem::path parent_of(const std::filesystem::path& path);

}  // namespace shampoo::checkpoint
