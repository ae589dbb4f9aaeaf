// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shampoo/state_dict.h"

namespace shampoo::checkpoint {

/// What state tensors of a slot have in common.
struct SavedSlot {
  std::string name;
  StateLayout layout = StateLayout::elements;
  int dimension = 0;

  bool operator==(const SavedSlot&) const = default;
};

/// What is known of the state tensors of a parameter without looking at them.
struct SavedParameter {
  std::vector<std::int64_t> merged_shape;  ///< the shape of its tensors
  std::vector<SavedSlot> slots;            ///< empty where it has no blocks

  bool operator==(const SavedParameter&) const = default;
};

/// A state dict without tensors.
struct SavedState {
  StateDict dict;
  bool derived = true;  ///< see StateDictOptions
  std::map<std::string, SavedParameter, std::less<>> parameters;
};

/// What a full state dict says beside the bytes of its tensors.
SavedState describe_state(const StateDict& full, bool derived);

/// As values of a manifest: "<field>" or "<field>/<parameter>". Numbers are exact and do not depend
/// on the locale:
///
///     format, progress.attempts, progress.taken, progress.skipped_in_a_row
///     derived                 true, or false
///     shape/w                 5 5 16
///     merged_shape/w          25 16
///     steps/w                 120
///     slots/w                 filtered_gradient:elements:0 factor/0:symmetric:0
///     blocks/w                0.0:25.16:0:3, each offset, extent, failures and phase
///     rates.epsilon/w         1e-08; "not set"
///     recipe.arithmetic/w     float32
void add_values(const SavedState& state, std::map<std::string, std::string>& values);

/// The inverse; leaves values of extras out. `library` and `arithmetic` stay empty. Throws
/// CheckpointError for values that add_values() does not give.
SavedState state_from(const std::map<std::string, std::string>& values);

}  // namespace shampoo::checkpoint
