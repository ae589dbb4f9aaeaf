// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "shampoo/shampoo.h"

namespace fashion {

/// Keys on the command line.
std::vector<std::string> schedule_names();

/// Of the learning rate, over a whole training: all but one_cycle rise for 50 steps first. Throws
/// std::invalid_argument for an unknown name.
shampoo::Schedule schedule_named(const std::string& name, int steps, int steps_per_epoch);

}  // namespace fashion
