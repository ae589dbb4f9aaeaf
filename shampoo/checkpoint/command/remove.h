// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "shampoo/checkpoint/command/options.h"

namespace shampoo::checkpoint::command {

/// Removes leftovers of the root options.path, unless it is a dry run, and prints them. Throws
/// CheckpointError, std::system_error.
void clean(const Options& options, std::ostream& out);

/// Removes all complete checkpoints but options.last, likewise.
void retain(const Options& options, std::ostream& out);

}  // namespace shampoo::checkpoint::command
