// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "distributor/store/store.h"

namespace shampoo {

/// Numbering of requests in torch's TCPStore.
enum class StoreProtocol : std::uint8_t {
  automatic,  ///< detected; harmless to servers of either kind
  torch_1,    ///< releases up to 2.1
  torch_2     ///< releases from 2.2 on
};

/// Connects to a StoreServer or to torch's TCPStore; retries until the deadline, as the server may
/// start later. Throws CommunicationError, naming the address and the error of the last attempt.
std::unique_ptr<Store> connect_store(const std::string& host, std::uint16_t port,
                                     std::chrono::milliseconds deadline,
                                     StoreProtocol protocol = StoreProtocol::automatic);

}  // namespace shampoo
