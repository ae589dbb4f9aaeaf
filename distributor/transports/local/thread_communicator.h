// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "distributor/communicator.h"

namespace shampoo {

/// Runs body(communicator) on n threads at once, each with its rank of one communicator in host
/// memory, and waits for all. What one rank throws ends the collectives of the others with a
/// CommunicationError; so does a rank that returns while others wait for it. The first exception is
/// rethrown, a CommunicationError only if there was no other. Throws std::invalid_argument unless
/// 1 <= n <= 1024, and std::system_error where a thread cannot be started.
void run_ranks(int n, const std::function<void(Communicator&)>& body);

}  // namespace shampoo
