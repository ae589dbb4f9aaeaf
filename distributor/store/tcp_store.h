// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "distributor/store/store.h"

namespace shampoo {

/// Which numbers torch's TCPStore gives to its requests.
enum class StoreProtocol : std::uint8_t {
  automatic,  ///< found out without harm to servers of either kind
  torch_1,    ///< releases up to 2.1
  torch_2     ///< releases from 2.2 on
};

/// Connects to a store of StoreServer's or torch's kind; retries until the deadline, as the server
/// may come later. Throws CommunicationError, naming the address and what the last attempt met.
std::unique_ptr<Store> connect_store(const std::string& host, std::uint16_t port,
                                     std::chrono::milliseconds deadline,
                                     StoreProtocol protocol = StoreProtocol::automatic);

}  // namespace shampoo
