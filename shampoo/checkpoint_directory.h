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
/// the system (a full disk, a file that may not be read) are std::system_error instead.
class CheckpointError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A complete checkpoint: its manifest is right and its files have the sizes that it says.
struct CompleteCheckpoint {
  std::int64_t step = 0;
  std::filesystem::path path;
  /// Orders the checkpoints of a directory: that with the largest was written last.
  std::int64_t sequence = 0;
  std::string save;    ///< unique id
  std::string parent;  ///< `save` of the checkpoint that its run went on from; may be empty
};

/// A folder with the name of a checkpoint that says itself that it is none: its manifest is
/// missing, cannot be read by this version or is wrong, or a file is missing or has another size.
struct BrokenCheckpoint {
  std::filesystem::path path;
  std::string fault;
};

/// The checkpoints of a directory. Other entries are ignored, symbolic links too.
struct CheckpointListing {
  std::vector<CompleteCheckpoint> complete;  ///< in the order of writing, the latest last
  std::vector<BrokenCheckpoint> broken;      ///< sorted by name
  /// Temporary directories of interrupted saves and removals, sorted by name.
  std::vector<std::filesystem::path> stale;
};

/// The checkpoints of a directory; none if it does not exist. Reads all manifests. Throws
/// std::system_error, also for a folder that cannot be read: that does not make it broken.
CheckpointListing list_checkpoints(const std::filesystem::path& directory);

/// The complete checkpoint that was written last, whatever its step: the latest of the branch that
/// was trained. Reads one manifest, and the first lines of the others. Not for a decision that all
/// ranks must share: see resume(). Throws std::system_error.
std::optional<std::filesystem::path> latest_checkpoint(const std::filesystem::path& directory);

/// Removes the temporary directories of saves and removals that ended early, and returns them. For
/// one rank, while no save is running in `directory`. Throws std::system_error.
std::vector<std::filesystem::path> remove_stale_directories(const std::filesystem::path& directory);

/// Removes all complete checkpoints but the `count` that were written last, and returns them. A
/// crash leaves each of them complete or stale. For one rank. Throws std::invalid_argument unless
/// count >= 1, std::system_error.
std::vector<std::filesystem::path> prune_checkpoints(const std::filesystem::path& directory,
                                                     int count);

}  // namespace shampoo
