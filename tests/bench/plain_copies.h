// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace shampoo::test {

/// What moves bytes without looking at them. They throw std::system_error.

/// Writes a new file in parts of 8 MiB and syncs it, as `dd bs=8M conv=fsync` does.
void write_plainly(const std::filesystem::path& path, std::uint64_t bytes);
void read_plainly(const std::filesystem::path& path);
/// So that the next read comes from the disk.
void forget(const std::filesystem::path& path);

/// As many bytes, of which a copy is made in memory that is fetched for it.
class PlainCopy {
 public:
  explicit PlainCopy(std::uint64_t bytes);
  void run() const;

 private:
  std::vector<char> from_;
};

}  // namespace shampoo::test
