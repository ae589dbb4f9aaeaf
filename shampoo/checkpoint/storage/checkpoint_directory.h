// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo::checkpoint {

/// A complete checkpoint: its manifest is right and its files have the sizes that it says.
struct CompleteFolder {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// A folder with the name of a checkpoint that is none.
struct BrokenFolder {
  std::filesystem::path path;
  std::string fault;
};

/// What lies in a root. Other entries are not looked at; links are other entries.
struct Listing {
  std::vector<CompleteFolder> complete;  ///< by step, the latest last
  std::vector<BrokenFolder> broken;      ///< by name
  std::vector<std::filesystem::path>
      leftovers;  ///< of saves and removals that ended early, by name
};

/// step-N.
std::string folder_name(std::int64_t step);
/// N; empty unless the last part of the path is a name of folder_name().
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);
/// step-N.tmp-<save>.
std::string temporary_name(std::int64_t step, std::string_view save);

/// Of a root that does not exist: nothing. Throws std::system_error.
Listing list_folders(const std::filesystem::path& root);

/// The complete folder with the largest step. Throws std::system_error.
std::optional<std::filesystem::path> latest_folder(const std::filesystem::path& root);

/// Removes what saves and removals left behind, and returns it. No save may be running in `root`.
/// Throws std::system_error.
std::vector<std::filesystem::path> remove_leftovers(const std::filesystem::path& root);

/// Removes all complete checkpoints but those with the `count` largest steps, and returns them. A
/// crash leaves each of them complete or a leftover. Throws std::invalid_argument unless
/// count >= 1, std::system_error.
std::vector<std::filesystem::path> retain_latest(const std::filesystem::path& root, int count);

}  // namespace shampoo::checkpoint
