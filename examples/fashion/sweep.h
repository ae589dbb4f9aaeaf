// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "distributor/communicator.h"
#include "examples/fashion/training.h"

namespace fashion {

/// Trains with both methods at learning rates 1e-3 and 3e-3, with three seeds from `first.seed`
/// on, and rank 0 prints the means over the seeds to standard output. `first` gives the rest.
/// Returns the checksum of the last trained network. Collective.
std::uint64_t sweep(shampoo::Communicator& ranks, const Task& task, const Attempt& first,
                    Progress& progress);

}  // namespace fashion
