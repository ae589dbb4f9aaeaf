// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "distributor/store/socket.h"
#include "distributor/store/store.h"

namespace shampoo::store {

/// A connection to a server that has answered.
struct Peer {
  Address address;
  Socket socket;
  StoreProtocol protocol = StoreProtocol::torch_1;  ///< never automatic
};

/// Connects and determines the protocol. Throws CommunicationError with the reason.
Peer shake_hands(const Address& address, StoreProtocol protocol, Deadline deadline);

/// Number of DELETE_KEY of a server with the old numbers: 7 in torch 2.1, 8 before. Uses
/// connections of its own. Throws CommunicationError with the reason.
std::uint8_t old_number_of_remove(const Address& address, Deadline deadline);

}  // namespace shampoo::store
