// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace shampoo::checkpoint {

/// One open file or folder. Interrupted and short calls go on; a call that fails throws a
/// std::system_error that names the path and the operation.
class File {
 public:
  /// For writing; fails if anything has this name already.
  static File create(const std::filesystem::path& path);
  /// For reading; follows symbolic links. Throws CheckpointError for what is no regular file,
  /// without waiting for it.
  static File open(const std::filesystem::path& path);

  /// To sync it.
  static File open_folder(const std::filesystem::path& path);

  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::filesystem::path& path() const { return path_; }
  /// Bytes of the file when asked.
  std::uint64_t size() const;
  /// Appends all of it.
  void write(std::span<const std::byte> bytes);
  /// Fills `into` with what starts at `offset`. Throws CheckpointError if the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// Bytes that were written set out for the disk, so that sync() finds less to wait for. A hint,
  /// which cannot fail.
  void start_sync(std::uint64_t offset, std::uint64_t bytes) noexcept;
  /// Returns when the bytes have reached the disk.
  void sync();
  /// Reports what only closing finds; the destructor ignores it.
  void close();

 private:
  File(int descriptor, std::filesystem::path path);

  int descriptor_ = -1;
  std::filesystem::path path_;
};

/// Writes a file that did not exist before, and syncs it. Throws std::system_error.
void write_file(const std::filesystem::path& path, std::string_view content);

/// Throws std::system_error with errno: "<path>: <operation>: <what errno means>".
[[noreturn]] void fail(const std::filesystem::path& path, const std::string& operation);

}  // namespace shampoo::checkpoint
