// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint {

/// The folder of a checkpoint that is being written: temporary until it is complete, so that step-N
/// exists only if it is. A process that dies leaves the temporary folder to
/// remove_stale_directories().
///
/// Rank 0 calls create() and commit(), each before or after all ranks have done something; every
/// rank writes its files into temporary().
class PendingCheckpoint {
 public:
  /// Throws std::invalid_argument for a negative step and a `save` that is not of new_save_id().
  PendingCheckpoint(std::filesystem::path directory, std::int64_t step, std::string save);

  /// step-N.tmp-<save>.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// step-N.
  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return step_; }
  const std::string& save() const { return save_; }

  /// Makes the directory, if it is missing, and the temporary folder. Throws std::invalid_argument
  /// if step-N exists, std::system_error.
  void create();
  /// Checks the sizes of the files, writes the manifest and renames the folder, each synced before
  /// the next. Throws as create() does, and CheckpointError for a manifest that does not fit.
  void commit(const Manifest& manifest);
  /// Removes what create() and commit() made, after a failure on any rank, when none writes any
  /// more. What cannot be removed stays under the temporary name.
  void discard() noexcept;
  /// From here on discard() does nothing.
  void release() { made_.clear(); }

 private:
  void require_new() const;

  std::filesystem::path directory_, temporary_, folder_;
  std::int64_t step_;
  std::string save_;
  std::filesystem::path made_;  ///< by this process; may be empty
};

}  // namespace shampoo::checkpoint
