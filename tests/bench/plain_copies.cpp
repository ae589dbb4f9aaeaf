// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/plain_copies.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>
#include <system_error>

namespace shampoo::test {
namespace {

[[noreturn]] void fail(const char* operation) {
  throw std::system_error(errno, std::generic_category(), operation);
}

constexpr std::size_t at_once = std::size_t{8} << 20;

}  // namespace

void write_plainly(const std::filesystem::path& path, std::uint64_t bytes) {
  std::vector<char> buffer(at_once);
  for (std::size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = static_cast<char>(i * 2654435761u >> 13);
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (file < 0) fail("open");
  while (bytes > 0) {
    const ssize_t written = ::write(file, buffer.data(), std::min<std::uint64_t>(at_once, bytes));
    if (written <= 0) fail("write");
    bytes -= static_cast<std::uint64_t>(written);
  }
  if (::fsync(file) != 0 || ::close(file) != 0) fail("fsync");
}

void read_plainly(const std::filesystem::path& path) {
  std::vector<char> buffer(at_once);
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0) fail("open");
  while (true) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0) fail("read");
    if (got == 0) break;
  }
  ::close(file);
}

void forget(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY);
  if (file < 0) fail("open");
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

PlainCopy::PlainCopy(std::uint64_t bytes) : from_(bytes, 1) {}

void PlainCopy::run() const {
  const std::vector<char> to = from_;
  // So that the copy is not left out.
  if (*static_cast<const volatile char*>(to.data()) != 1) throw std::logic_error("not copied");
}

}  // namespace shampoo::test
