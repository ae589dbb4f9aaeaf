// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"

namespace shampoo::checkpoint {

/// What a save does with a complete checkpoint of its step. A broken one is replaced.
enum class Existing : std::uint8_t { refuse, replace };

/// True if there is a step-N that a save may replace; false if there is none. Throws
/// std::invalid_argument if it must stay: a complete one, unless `existing` says replace, and what
/// is no folder; std::system_error.
bool is_replaceable(const std::filesystem::path& directory, std::int64_t step, Existing existing);

/// Throws std::invalid_argument for a negative one.
void require_step_number(std::int64_t step);

/// The folder of a checkpoint that is being written: temporary until it is complete, so that step-N
/// exists only if it is. A process that dies leaves the temporary folder to
/// remove_stale_directories().
///
/// Rank 0 calls create() and commit(), each before or after all ranks have done something; every
/// rank writes its files into temporary().
class PendingCheckpoint {
 public:
  /// Throws std::invalid_argument for a negative step and a `save` that is not of new_save_id().
  PendingCheckpoint(std::filesystem::path directory, std::int64_t step, std::string save,
                    Existing existing = Existing::refuse);

  /// step-N.tmp-<save>.
  const std::filesystem::path& temporary() const { return temporary_; }
  /// step-N.
  const std::filesystem::path& folder() const { return folder_; }
  std::int64_t step() const { return step_; }
  const std::string& save() const { return save_; }

  /// Makes the directory, if it is missing, and the temporary folder. Throws as is_replaceable()
  /// does.
  void create();
  /// Checks the sizes of the files, writes the manifest and renames the folder, each synced before
  /// the next. An old step-N changes places with it, where the file system can exchange names; else
  /// it is step-N.old-<save> before the new one gets its name. Throws as create() does, and
  /// CheckpointError for a manifest that does not fit.
  void commit(const Manifest& manifest);
  /// Removes what create() and commit() made, after a failure on any rank, when none writes any
  /// more. What cannot be removed stays under the temporary name; returns false if it is stale.
  bool discard() noexcept;
  /// From here on discard() does nothing.
  void release() { made_.clear(); }
  /// Where the checkpoint is that commit() replaced; empty: there was none, or it is removed.
  const std::filesystem::path& replaced() const { return replaced_; }
  /// Removes it. Throws std::system_error.
  void remove_replaced();

 private:
  void put_in_place();
  bool take_back() noexcept;

  std::filesystem::path directory_, temporary_, folder_;
  std::int64_t step_;
  std::string save_;
  Existing existing_;
  std::filesystem::path made_;      ///< by this process; may be empty
  std::filesystem::path replaced_;  ///< where the old step-N is; may be empty
};

}  // namespace shampoo::checkpoint
