// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "distributor/store/socket.h"
#include "distributor/store/store.h"

namespace shampoo::store {

/// A connection to a server that has answered.
struct Peer {
  Address address;
  Socket socket;
  StoreProtocol protocol = StoreProtocol::torch_1;  ///< never automatic
  std::string instance = {};  ///< of a StoreServer, which no other one has; empty: it is torch's
};

/// Connects and determines the protocol. With a secret, both sides prove it, and the server is a
/// StoreServer. Throws CommunicationError with the reason.
Peer shake_hands(const Address& address, StoreProtocol protocol, const std::string& secret,
                 Deadline deadline);

/// Number of DELETE_KEY of a server with the old numbers: 7 in torch 2.1, 8 before. Uses
/// connections of its own. Throws CommunicationError with the reason.
std::uint8_t old_number_of_remove(const Address& address, Deadline deadline);

}  // namespace shampoo::store
