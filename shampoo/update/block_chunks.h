// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "shampoo/update/registered_parameter.h"

namespace shampoo {

/// Cuts a rank's blocks of one virtual group, in flat order, into runs of at most `most` elements,
/// which are about equally long; a longer block is a run of its own. Flat places and stacks count
/// from the beginning of the run. `end`: elements of the whole flat run.
std::vector<std::vector<OwnedBlock>> chunks_of(const std::vector<OwnedBlock>& blocks,
                                               std::int64_t end, std::int64_t most);

}  // namespace shampoo
