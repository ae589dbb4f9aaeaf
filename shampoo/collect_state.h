// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/training.h"

namespace shampoo {

/// The state of the blocks that this rank owns; all but progress. Waits for the backend.
StateDict collect_state(Backend& backend, const Training& training,
                        const StateDictOptions& options);

/// Puts everything in the order of names.
void sort_by_name(StateDict& dict);

}  // namespace shampoo
