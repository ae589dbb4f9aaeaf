// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "shampoo/checkpoint/command/options.h"

namespace shampoo::checkpoint::command {

/// Prints what the checkpoint at options.path holds, which is checked but for checksums of tensors.
/// Throws CheckpointError, std::system_error.
void describe(const Options& options, std::ostream& out);

}  // namespace shampoo::checkpoint::command
