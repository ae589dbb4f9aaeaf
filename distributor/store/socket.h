// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/system/unique_fd.h"

namespace shampoo::store {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// `duration` from now, limited to a year.
Deadline after(std::chrono::milliseconds duration);

using Socket = UniqueFd;

struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

/// IPv6 and IPv4 addresses, in the system's order. May wait for name servers, without a deadline.
/// Throws CommunicationError with the reason.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);

/// Throws CommunicationError with the reason. The socket does not block.
Socket connect_to(const Address& address, Deadline deadline);

enum class Transfer : std::uint8_t { done, closed, late };
Transfer send_all(const Socket& socket, std::string_view bytes, Deadline deadline);
Transfer receive_all(const Socket& socket, char* bytes, std::size_t size, Deadline deadline);

/// Listens on all addresses, IPv6 and IPv4; on IPv4 only if the system has no IPv6. `port` 0: any.
/// The socket does not block. Throws std::system_error that names the port.
Socket listen_on(std::uint16_t port);
std::uint16_t port_of(const Socket& socket);
/// Disables Nagle's algorithm, and detects a peer that is unreachable for about two minutes.
void make_prompt(const Socket& socket);

}  // namespace shampoo::store
