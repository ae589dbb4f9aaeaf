// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "shampoo/checkpoint/command/options.h"

namespace shampoo::checkpoint::command {

/// Prints what lies in the root options.path. Throws CheckpointError, std::system_error.
void list(const Options& options, std::ostream& out);

}  // namespace shampoo::checkpoint::command
