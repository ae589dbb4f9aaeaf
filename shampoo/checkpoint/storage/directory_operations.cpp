// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/directory_operations.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "shampoo/checkpoint/storage/file.h"

namespace shampoo::checkpoint {

bool is_there(const std::filesystem::path& path) {
  return std::filesystem::exists(std::filesystem::symlink_status(path));
}

bool is_gone(std::error_code error, const std::filesystem::path& path) {
  return error == std::error_code(ESTALE, std::generic_category()) && !is_there(path);
}

namespace {

/// The file system does not know the call or its flag.
bool is_unsupported(int error) { return error == EINVAL || error == ENOSYS || error == EOPNOTSUPP; }

/// `renamed`: what the call returned.
void check_rename(int renamed, const std::filesystem::path& from, const std::filesystem::path& to) {
  const int error = errno;
  if (renamed == 0 || (error != EEXIST && !is_there(from) && is_there(to))) return;
  errno = error;
  fail(from, "rename to " + to.string());
}

}  // namespace

void sync_folder(const std::filesystem::path& folder) {
  File opened = File::open_folder(folder);
  try {
    opened.sync();
  } catch (const std::system_error& error) {
    if (!is_unsupported(error.code().value())) throw;
  }
}

void make_unique_folder(const std::filesystem::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) fail(folder, "mkdir");
}

void make_folders(const std::filesystem::path& folder) {
  const std::filesystem::path parent = parent_of(folder);
  if (std::filesystem::is_directory(folder)) {
    // Whoever made it may have died before it was synced. Its parent may be somebody else's.
    try {
      sync_folder(parent);
    } catch (const std::system_error& error) {
      if (error.code() != std::errc::permission_denied) throw;
    }
    return;
  }
  if (parent != folder && !std::filesystem::is_directory(parent)) make_folders(parent);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int error = errno;
    // Another rank or job may have been faster.
    const bool is_made = error == EEXIST && std::filesystem::is_directory(folder);
    errno = error;
    if (!is_made) fail(folder, "mkdir");
  }
  sync_folder(parent);
}

void rename_entry(const std::filesystem::path& from, const std::filesystem::path& to) {
  check_rename(std::rename(from.c_str(), to.c_str()), from, to);
}

void rename_to_new(const std::filesystem::path& from, const std::filesystem::path& to) {
  const int renamed = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (renamed == 0 || !is_unsupported(errno)) return check_rename(renamed, from, to);
  if (is_there(to)) {
    errno = EEXIST;
    fail(from, "rename to " + to.string());
  }
  rename_entry(from, to);
}

bool exchange_entries(const std::filesystem::path& a, const std::filesystem::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (!is_unsupported(errno)) fail(a, "exchange with " + b.string());
  return false;
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error) throw std::system_error(error, folder.string() + ": remove");
}

std::filesystem::path whole_path(const std::filesystem::path& path) {
  if (path.empty()) throw std::invalid_argument("checkpoint path: must not be empty");
  std::filesystem::path whole;
  // ".." stays: what is before it may be a link.
  for (const std::filesystem::path& part : std::filesystem::absolute(path))
    if (!part.empty() && part != ".") whole /= part;
  return whole;
}

std::filesystem::path parent_of(const std::filesystem::path& path) {
  const std::filesystem::path whole = path.has_filename() ? path : path.parent_path();
  const std::filesystem::path parent = whole.parent_path();
  return parent.empty() ? std::filesystem::path(".") : parent;
}

}  // namespace shampoo::checkpoint
