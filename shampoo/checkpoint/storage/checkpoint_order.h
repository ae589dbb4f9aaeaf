// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "shampoo/checkpoint/format/manifest_head.h"
#include "shampoo/checkpoint_directory.h"

namespace shampoo::checkpoint {

/// How often a directory is listed before checkpoints that go meanwhile, as another process prunes,
/// leave none.
inline constexpr int most_listings = 10;

/// The checkpoints of a directory, that which was written last first. Reads the heads of all
/// manifests at once, and a whole manifest only when it comes to it. Where checkpoints go while it
/// looks, and there is no other, it lists the directory again. Throws std::system_error.
class NewestFirst {
 public:
  /// A directory that does not exist has none.
  explicit NewestFirst(const std::filesystem::path& directory);

  /// The next complete one; nothing after the oldest.
  std::optional<CompleteCheckpoint> next();
  /// Broken ones among those that next() has passed, and all whose heads cannot be read.
  std::vector<BrokenCheckpoint>& broken() { return broken_; }
  /// Temporary directories of interrupted saves and removals, sorted by name.
  std::vector<std::filesystem::path>& stale() { return stale_; }
  /// Larger than every sequence in the directory. Throws CheckpointError where there is none.
  std::int64_t next_sequence() const;

 private:
  struct Entry {
    std::filesystem::path folder;
    ManifestHead head;
  };

  void list();
  void add(const std::filesystem::path& folder, std::int64_t step);
  std::optional<CompleteCheckpoint> next_listed();
  void note(const std::filesystem::path& folder, const std::string& fault);

  std::filesystem::path directory_;
  std::vector<Entry> left_;  ///< the next one last
  std::optional<Entry> largest_;
  bool has_found_ = false;  ///< by next()
  bool have_gone_ = false;  ///< some of the listed folders, meanwhile
  std::vector<BrokenCheckpoint> broken_;
  std::vector<std::filesystem::path> stale_;
};

/// Complete checkpoints but the `count` that were written last and those with one of the ids
/// `saves`, in the order of writing. Throws std::system_error.
std::vector<CompleteCheckpoint> checkpoints_to_prune(const std::filesystem::path& directory,
                                                     int count,
                                                     const std::vector<std::string>& saves);

/// Gives a checkpoint the name of a stale directory, and returns that. Throws std::system_error.
std::filesystem::path set_aside(const CompleteCheckpoint& checkpoint);
/// Syncs the new name and removes the folder. Throws std::system_error.
void remove_aside(const std::filesystem::path& aside);

}  // namespace shampoo::checkpoint
