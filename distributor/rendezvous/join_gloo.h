// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "distributor/rendezvous/detection.h"

namespace shampoo::joining {

/// Meets the other ranks at the store and connects to them with Gloo, which this build has, within
/// options.connect_deadline. Collective. A fault of this rank alone is told to all others.
/// Throws as join() does.
std::unique_ptr<Communicator> join_gloo(const Detected& detected, const JoinOptions& options);

}  // namespace shampoo::joining
