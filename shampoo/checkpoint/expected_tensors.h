// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shampoo/checkpoint/reader.h"
#include "shampoo/checkpoint/state_values.h"

namespace shampoo::checkpoint {

/// Throws CheckpointError that names the tensor, and its file if it has one, unless the state's
/// tensors of the manifest are those that its values announce: every slot of a parameter, and of
/// triangles every block, with the shape that follows; roots beside all factors, or beside none, as
/// `saved.derived` says.
void require_announced(const Reader& reader, const SavedState& saved);

}  // namespace shampoo::checkpoint
