// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/pending_checkpoint.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::checkpoint::test {

using shampoo::test::content_of;
using shampoo::test::TemporaryFolder;

/// Overwrites the file.
std::filesystem::path put(const std::filesystem::path& path, std::string_view content);

/// A safetensors file with this header as it is.
std::string raw(std::string_view header, std::string_view data);

/// What an action throws; empty if nothing.
template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// A checkpoint of two files: the slot "s" of the parameter "w" of 2 x 3, merged to 6, in two
/// blocks, one per file, and the user tensor "count", a scalar, in the first.
struct Sample {
  std::int64_t step = 1;
  double first = 0.5;  ///< first element of "s"; the next are larger by 1 each

  /// Writes the files and gives the manifest.
  Manifest write(const std::filesystem::path& folder, const std::string& save) const;
  /// As one rank.
  std::filesystem::path save(const std::filesystem::path& directory,
                             Existing existing = Existing::refuse) const;
  /// Whether the folder holds exactly this.
  bool equals(const std::filesystem::path& folder) const;
};

/// A checkpoint of so many files, with a user tensor of one byte in each. Returns `folder`.
std::filesystem::path save_files(const std::filesystem::path& folder, std::uint32_t files);

/// The most descriptors that this process may have, for a while.
class FewDescriptors {
 public:
  explicit FewDescriptors(rlim_t most);
  ~FewDescriptors();
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace shampoo::checkpoint::test
