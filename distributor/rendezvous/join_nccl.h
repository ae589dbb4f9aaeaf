// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/rendezvous/detection.h"

namespace shampoo::joining {

/// Connects the ranks with NCCL, which this build has, each on the device of the stream, within
/// options.connect_deadline: over `host`, ranks in host memory, or unless it is set over the store.
/// Collective. A fault of this rank alone is told to all others. Throws as join() does.
std::unique_ptr<Communicator> join_nccl(const Detected& detected, const JoinOptions& options,
                                        StreamRef stream, std::shared_ptr<Communicator> host);

}  // namespace shampoo::joining
