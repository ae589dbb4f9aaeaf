// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shampoo {

/// A complete checkpoint: its manifest is right and its files have the sizes that it says.
struct CompleteCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// A folder with the name of a checkpoint that is not complete.
struct BrokenCheckpoint {
  std::filesystem::path path;
  std::string fault;
};

/// The checkpoints of a directory. Other entries are ignored, symbolic links too.
struct CheckpointListing {
  std::vector<CompleteCheckpoint> complete;  ///< by step, the latest last
  std::vector<BrokenCheckpoint> broken;      ///< by name
  std::vector<std::filesystem::path> stale;  ///< of saves and removals that ended early, by name
};

/// Of a directory that does not exist: nothing. Throws std::system_error.
CheckpointListing list_checkpoints(const std::filesystem::path& directory);

/// The complete checkpoint with the largest step, which load() takes. Throws std::system_error.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// Removes the temporary directories of saves and removals that ended early, and returns them. For
/// one rank, while no save is running in `directory`. Throws std::system_error.
std::vector<std::filesystem::path> remove_stale_directories(const std::filesystem::path& directory);

/// Removes all complete checkpoints but those with the `count` largest steps, and returns them. A
/// crash leaves each of them complete or stale. For one rank. Throws std::invalid_argument unless
/// count >= 1, std::system_error.
std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& directory,
                                                     int count);

namespace checkpoint {

struct Manifest;

/// step-N.
std::string folder_name(std::int64_t step);
/// N; empty unless the last part of the path is a name of folder_name().
std::optional<std::int64_t> step_of(const std::filesystem::path& folder);
/// step-N.tmp-<save>.
std::string temporary_name(std::int64_t step, std::string_view save);

/// A random UUID of version 4. Rank 0 makes it and sends it to the others.
std::string new_save_id();
/// `text` has the form of new_save_id(), in lower case.
bool is_save_id(std::string_view text);

/// Throws CheckpointError unless `manifest` is of this step.
void require_step(const std::filesystem::path& folder, const Manifest& manifest, std::int64_t step);
/// The same, and unless every file is there with the size that the manifest says;
/// std::system_error.
void require_complete(const std::filesystem::path& folder, const Manifest& manifest,
                      std::int64_t step);
/// Throws CheckpointError unless a file has the size that the manifest says.
void require_size(const std::filesystem::path& file, std::uint64_t bytes, std::uint64_t wanted);

}  // namespace checkpoint

}  // namespace shampoo
