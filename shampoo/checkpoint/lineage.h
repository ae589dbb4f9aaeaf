// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "shampoo/checkpoint.h"

namespace shampoo::checkpoint {

/// What a save has from the lineages of its optimizers, whose saves it counts, and leaves there.
/// See CheckpointLineage.
class SaveLineage {
 public:
  explicit SaveLineage(const Optimizers& optimizers);
  ~SaveLineage();
  SaveLineage(const SaveLineage&) = delete;
  SaveLineage& operator=(const SaveLineage&) = delete;

  /// A load went on without the folder.
  bool passed_over(const std::filesystem::path& folder) const;

  /// The save starts.
  void begin();
  /// Directories that were stale then.
  const std::vector<std::filesystem::path>& stale() const { return stale_; }
  /// See Manifest; that of the first optimizer.
  const std::string& parent() const { return parent_; }
  /// Ids of saves that are not pruned.
  const std::vector<std::string>& kept() const { return kept_; }

  /// The save is complete.
  void finish(const std::string& save, const std::filesystem::path& folder);
  /// These could not be removed: the next save tries again.
  void leave(const std::vector<std::filesystem::path>& stale);

 private:
  Optimizers optimizers_;
  std::vector<int> loads_;  ///< of each, when the state was its own
  std::vector<std::filesystem::path> stale_;
  std::string parent_;
  std::vector<std::string> kept_;
};

/// The optimizers were loaded from a save, after others were found broken.
void note_loaded(const Optimizers& optimizers, const std::string& save,
                 std::span<const BrokenCheckpoint> passed_over);

}  // namespace shampoo::checkpoint
