// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "distributor/communicator.h"
#include "tests/distributor/transports/leased_memory.h"

namespace shampoo::test {

/// Throws std::runtime_error with `what` unless `holds`.
void require(bool holds, std::string_view what);

/// Puts every collective of a communicator through its paces; throws std::runtime_error at the
/// first that goes wrong. Collective. Returns a checksum of the sums' bits on this rank, which is
/// the same for all transports. `splits` unless it has no split.
std::uint64_t conform(Communicator& ranks, bool splits = true);
/// The same with buffers in that memory, which must be of the communicator's kind.
std::uint64_t conform(Communicator& ranks, LeasedMemory& memory, bool splits = true);

/// The checksum of `rank` when `size` threads conform.
std::uint64_t checksum_of_threads(int rank, int size);

}  // namespace shampoo::test
