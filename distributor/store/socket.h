// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/system/network_address.h"
#include "distributor/system/unique_fd.h"

namespace shampoo::store {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// `duration` from now, limited to a year.
Deadline after(std::chrono::milliseconds duration);

using Socket = UniqueFd;

using Address = NetworkAddress;

/// IPv6 and IPv4 addresses, in the system's order. May wait for name servers, without a deadline.
/// Throws CommunicationError with the reason.
std::vector<Address> resolve(const std::string& host, std::uint16_t port);

/// "host:port", and "[::1]:port" for an IPv6 address, in messages.
std::string place_of(const std::string& host, std::uint16_t port);

/// The host of "[::1]", as URLs write addresses of IPv6; others as they are. A part of `host`.
inline std::string_view without_brackets(std::string_view host) {
  const bool has_brackets = host.size() > 2 && host.starts_with('[') && host.ends_with(']');
  return has_brackets ? host.substr(1, host.size() - 2) : host;
}

/// Nothing listens at an address: the server is gone, or not there yet.
struct ConnectionRefused : CommunicationError {
  using CommunicationError::CommunicationError;
};

/// Throws CommunicationError with the reason. The socket does not block.
Socket connect_to(const Address& address, Deadline deadline);

enum class Transfer : std::uint8_t { done, closed, late };
Transfer send_all(const Socket& socket, std::string_view bytes, Deadline deadline);
Transfer receive_all(const Socket& socket, char* bytes, std::size_t size, Deadline deadline);

/// The addresses of `host` that this host has, without loopback ones if `several_hosts`. Empty if
/// there are none, or the name is unknown.
std::vector<Address> own_addresses(const std::string& host, bool several_hosts);
/// Listens at each of the addresses, or if there are none, at all of this host, IPv6 and IPv4.
/// `port` 0: any, the same for all. The sockets do not block. Throws std::system_error that names
/// the port.
std::vector<Socket> listen_on(std::uint16_t port, const std::vector<Address>& addresses = {});
std::uint16_t port_of(const Socket& socket);
/// Disables Nagle's algorithm, and detects a peer that is unreachable for about two minutes.
void make_prompt(const Socket& socket);

}  // namespace shampoo::store
