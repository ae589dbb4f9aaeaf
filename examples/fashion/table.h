// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "examples/fashion/training.h"

namespace fashion {

/// Loss and test accuracy of every epoch and the times of each run, side by side, as text.
std::string results_table(std::span<const Outcome> outcomes);

}  // namespace fashion
