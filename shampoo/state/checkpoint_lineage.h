// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

namespace shampoo {

/// The checkpoints that the state of an optimizer comes from. Read on rank 0 only.
struct CheckpointLineage {
  std::string latest;  ///< id of the save that was loaded or completed last: the next one's parent
  std::string loaded;  ///< id of the save that was loaded last, which is not pruned
  /// Folders that a load found broken and went on without: a save of their step replaces them.
  std::set<std::filesystem::path> passed_over;
  /// What interrupted saves and removals had left where the last load looked, and what a save could
  /// not remove. The next save there removes it; a job that only loads may not, as another one may
  /// be saving.
  std::vector<std::filesystem::path> stale;
  int saves = 0;  ///< under way or waiting: what they write is not stale
  int loads = 0;  ///< a save that began before the last of them is of another branch
};

}  // namespace shampoo
