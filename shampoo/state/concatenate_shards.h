// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/state_dict.h"

namespace shampoo {

/// Concatenates the shards of each elementwise tensor, if they cover it, into one tensor. `dict` is
/// sorted by name before and after.
void concatenate_shards(StateDict& dict);

}  // namespace shampoo
