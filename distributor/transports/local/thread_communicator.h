// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "distributor/communicator.h"

namespace shampoo {

/// Runs body(communicator) concurrently on n threads, each one rank of a communicator in host
/// memory, and joins them. If a rank throws, or returns while others wait for it, the collectives
/// of the others throw CommunicationError. Afterwards the first exception is rethrown; a
/// CommunicationError only if there was no other. Throws std::invalid_argument unless
/// 1 <= n <= 1024, and std::system_error if a thread cannot be started.
void run_ranks(int n, const std::function<void(Communicator&)>& body);

}  // namespace shampoo
