// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace shampoo {

/// The checkpoints that the state of an optimizer comes from. Read on rank 0 only.
struct CheckpointLineage {
  std::string latest;  ///< id of the save that was loaded or completed last: the next one's parent
  std::string loaded;  ///< id of the save that was loaded last, which is not pruned
  /// Folders that a load found broken and went on without: a save of their step replaces them.
  std::set<std::filesystem::path> passed_over;
};

}  // namespace shampoo
