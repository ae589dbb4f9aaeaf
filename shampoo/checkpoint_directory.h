// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace shampoo {

/// A broken, incomplete or foreign checkpoint; the message names file, tensor and offset. Errors of
/// the system (a full disk, a missing file) are std::system_error instead.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

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
  std::vector<CompleteCheckpoint> complete;  ///< sorted by step, the latest last
  std::vector<BrokenCheckpoint> broken;      ///< sorted by name
  /// Temporary directories of interrupted saves and removals, sorted by name.
  std::vector<std::filesystem::path> stale;
};

/// The checkpoints of a directory; none if it does not exist. Throws std::system_error.
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

}  // namespace shampoo
