// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>

#include "shampoo/checkpoint/format/manifest.h"
#include "shampoo/checkpoint/storage/uuid.h"

namespace shampoo::checkpoint {

/// Which checkpoint is written, and by whom.
struct SavePlace {
  std::filesystem::path root;  ///< made if it is missing
  std::int64_t step = 0;       ///< >= 0
  std::string save;            ///< of new_save_id(), equal on all ranks
  int rank = 0;
};

/// What a rank does in a save. Every rank calls each of them equally often, in the same order.
struct SaveSteps {
  /// Writes this rank's files into the folder and syncs them. Collective only if no rank can
  /// throw before it has told the others.
  std::function<void(const std::filesystem::path& folder)> write;
  /// The manifest of all ranks' files; needed on rank 0, ignored elsewhere. May be collective: all
  /// ranks are known to have written.
  std::function<Manifest()> manifest;
  /// Given what this rank has thrown, or null. Collective: returns if no rank has thrown, else
  /// throws on all of them.
  std::function<void(const std::exception_ptr&)> vote;
};

/// Writes the checkpoint `root`/step-N and returns that folder. Collective.
///
/// Rank 0 makes the temporary folder step-N.tmp-<save>; all ranks write and sync; rank 0 writes the
/// manifest, renames the folder and syncs its parent. Between these a vote, so that the save
/// succeeds on all ranks or on none. Whatever fails or dies, checkpoints that were complete before
/// stay untouched, and step-N exists only if it is complete; a failed save removes its temporary
/// folder if it still can, a dead one leaves it to remove_leftovers(). If a rank dies during the
/// last vote, the others throw although the checkpoint is complete and stays.
///
/// Throws std::invalid_argument for a bad place and if step-N exists already; otherwise what the
/// vote throws.
std::filesystem::path save_folder(const SavePlace& place, const SaveSteps& steps);

}  // namespace shampoo::checkpoint
