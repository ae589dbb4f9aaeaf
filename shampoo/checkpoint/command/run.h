// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>

#include "shampoo/checkpoint/command/options.h"

namespace shampoo::checkpoint::command {

/// Exit statuses, as diff has them.
inline constexpr int fine = 0, found_something = 1, went_wrong = 2;

/// Does what is asked, prints it to `out`, and returns fine or found_something. Throws
/// CheckpointError, std::system_error and others for what went wrong.
int run(const Options& options, std::ostream& out);

}  // namespace shampoo::checkpoint::command
