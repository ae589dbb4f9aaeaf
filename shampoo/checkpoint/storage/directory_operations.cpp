// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/directory_operations.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

void sync_folder(const std::filesystem::path& folder) {
  File opened = File::open_folder(folder);
  opened.sync();
}

void make_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) fail(folder, "mkdir");
}

void make_folders(const std::filesystem::path& folder) {
  if (std::filesystem::is_directory(folder)) return;
  const std::filesystem::path parent = parent_of(folder);
  if (parent != folder) make_folders(parent);
  // Another rank or job may have been faster.
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail(folder, "mkdir");
  sync_folder(parent);
}

void rename_entry(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail(from, "rename to " + to.string());
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) throw std::system_error(error, folder.string() + ": remove");
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  const std::filesystem::path whole = path.has_filename() ? path : path.parent_path();
  const std::filesystem::path parent = whole.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace shampoo::checkpoint
