// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "examples/fashion/training.h"

namespace fashion {

/// Trains with both methods at learning rates 1e-3 and 3e-3, with three seeds from `first.seed`
/// on, and prints the means over the seeds to standard output. `first` gives the rest.
void sweep(const Task& task, const Attempt& first, Progress& progress);

}  // namespace fashion
