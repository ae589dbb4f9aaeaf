// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "examples/fashion/network/network.h"
#include "shampoo/distributor/communicator.h"

namespace fashion {

/// The checksum of all parameters' bytes, in the order of their names. Collective.
/// Throws std::runtime_error that names a rank with another checksum than rank 0.
std::uint64_t agreed_checksum(shampoo::Communicator& ranks, Network<float>& network);

}  // namespace fashion
