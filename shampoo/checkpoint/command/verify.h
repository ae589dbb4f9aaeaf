// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "shampoo/checkpoint/command/text.h"

namespace shampoo::checkpoint::command {

/// What was found in one checkpoint folder.
struct VerifiedFolder {
  std::filesystem::path path;
  std::uint64_t tensors = 0, files = 0;
  std::uint64_t bytes = 0;           ///< of tensors whose checksums are right
  std::vector<std::string> faults;   ///< each names file, tensor, offset as far as there are any
  std::vector<std::string> unknown;  ///< entries that the manifest does not list
};

struct Verification {
  std::filesystem::path path;
  std::vector<VerifiedFolder> folders;
  std::vector<std::filesystem::path> leftovers;

  /// Whether there was something, and no fault in it.
  bool sound() const;
};

/// Checks a checkpoint, or all of a root, and goes on after a fault: with the next tensor, file or
/// checkpoint. Keeps 1 MiB of a file. Throws CheckpointError if there is no such folder,
/// std::system_error.
Verification verify_path(const std::filesystem::path& path);

std::string text_of(const Verification& verification);
Json json_of(const Verification& verification);

}  // namespace shampoo::checkpoint::command
