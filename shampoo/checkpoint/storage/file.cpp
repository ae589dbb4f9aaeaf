// SPDX-License-Identifier: Apache-2.0
#include "shampoo/checkpoint/storage/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>
#include <utility>

#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {
namespace {

template <typename Call>
auto again_if_interrupted(const Call& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace

void fail(const std::filesystem::path& path, const std::string& operation) {
  throw std::system_error(errno, std::generic_category(), path.string() + ": " + operation);
}

File::File(int descriptor, std::filesystem::path path)
    : descriptor_(descriptor), path_(std::move(path)) {}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::create(const std::filesystem::path& path) {
  const int descriptor = again_if_interrupted([&] {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
  });
  if (descriptor < 0) fail(path, "create");
  return {descriptor, path};
}

File File::open(const std::filesystem::path& path) {
  // Opening a pipe would wait for its other end.
  const int descriptor =
      again_if_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
  if (descriptor < 0) fail(path, "open");

  File file(descriptor, path);
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) fail(path, "fstat");
  if (!S_ISREG(status.st_mode)) throw CheckpointError(path.string() + ": no regular file");
  return file;
}

File File::open_folder(const std::filesystem::path& path) {
  const int descriptor = again_if_interrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY); });
  if (descriptor < 0) fail(path, "open");
  return {descriptor, path};
}

std::uint64_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(path_, "fstat");
  return static_cast<std::uint64_t>(status.st_size);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        again_if_interrupted([&] { return ::write(descriptor_, bytes.data(), bytes.size()); });
    if (written == 0) errno = EIO;
    if (written <= 0) fail(path_, "write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (offset > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - into.size())
    throw CheckpointError(path_.string() + ": nothing can lie at byte " + std::to_string(offset));
  while (!into.empty()) {
    const ssize_t got = again_if_interrupted(
        [&] { return ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset)); });
    if (got < 0) fail(path_, "read at byte " + std::to_string(offset));
    if (got == 0)
      throw CheckpointError(path_.string() + ": ends at byte " + std::to_string(offset) + ", " +
                            std::to_string(into.size()) + " bytes early");
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

void File::start_sync(std::uint64_t offset, std::uint64_t bytes) noexcept {
  ::sync_file_range(descriptor_, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                    SYNC_FILE_RANGE_WRITE);
}

void File::sync() {
  if (again_if_interrupted([&] { return ::fsync(descriptor_); }) != 0) fail(path_, "fsync");
}

void File::close() {
  // After EINTR the descriptor is gone all the same.
  const int result = ::close(std::exchange(descriptor_, -1));
  if (result != 0 && errno != EINTR) fail(path_, "close");
}

void write_file(const std::filesystem::path& path, std::string_view content) {
  File file = File::create(path);
  file.write(std::as_bytes(std::span(content)));
  file.sync();
  file.close();
}

}  // namespace shampoo::checkpoint
