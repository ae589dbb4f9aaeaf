// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace shampoo {

/// An IPv6 or IPv4 address, as the functions of the system take it.
struct NetworkAddress {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr* generic() { return reinterpret_cast<sockaddr*>(&bytes); }
  int family() const { return bytes.ss_family; }
};

/// The address of a local or, with getpeername(), the remote end of a socket. Size 0 if it has
/// none.
NetworkAddress local_address(int socket);
NetworkAddress peer_address(int socket);

/// Without the port: "10.0.0.7", "fe80::1%eth0"; "" for no address. An IPv4 address is written as
/// such where an IPv6 socket maps it.
std::string numeric_text(const NetworkAddress& address);

/// 127.0.0.0/8 and ::1.
bool is_loopback(const NetworkAddress& address);
/// True for loopback addresses and those of this host's interfaces.
bool is_own(const NetworkAddress& address);

/// An address of the interface, not a link-local one, IPv4 before IPv6; size 0: there is none.
NetworkAddress address_of_interface(const std::string& name);
/// This host's address on the route to another; sends nothing. Size 0: there is no route.
NetworkAddress source_towards(const NetworkAddress& target);

}  // namespace shampoo
