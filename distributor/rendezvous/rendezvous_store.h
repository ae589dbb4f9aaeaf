// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>

#include "distributor/rendezvous/detection.h"
#include "distributor/store/store.h"

namespace shampoo::joining {

/// The store of the job at detected.host and port. Rank 0 serves it unless the launcher does, or
/// the port is taken: then what listens there must be a store. The server lives as long as
/// what is returned. Waits for the server. Port 0, only for one rank: any.
/// Throws CommunicationError, naming the address.
std::shared_ptr<Store> open_meeting_point(const Detected& detected,
                                          std::chrono::milliseconds deadline);

}  // namespace shampoo::joining
