// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "shampoo/checkpoint/command/command_options.h"

namespace shampoo::checkpoint::command {

/// Exit statuses, as diff has them.
inline constexpr int fine = 0, found_something = 1, went_wrong = 2;

/// Runs a command, prints its result to `out`, and returns fine or found_something. Throws
/// CheckpointError, std::system_error and others for what went wrong.
int run(const Options& options, std::ostream& out);

/// The checkpoints of a directory.
void list(const Options& options, std::ostream& out);
/// The content of a checkpoint, which is checked but for checksums of tensors.
void describe(const Options& options, std::ostream& out);
/// Checks a checkpoint, or all of a directory, and goes on after a fault: with the next tensor,
/// file or checkpoint. Keeps 1 MiB of a file. Returns fine or found_something.
int verify(const Options& options, std::ostream& out);
/// Removes stale directories, unless it is a dry run.
void clean(const Options& options, std::ostream& out);
/// Removes all complete checkpoints but options.last, likewise.
void retain(const Options& options, std::ostream& out);

}  // namespace shampoo::checkpoint::command
