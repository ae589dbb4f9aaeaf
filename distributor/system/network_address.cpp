// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/network_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>

#include <array>
#include <cstring>
#include <memory>

#include "distributor/system/unique_fd.h"

namespace shampoo {

namespace {

const sockaddr_in& four(const NetworkAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.bytes);
}

const sockaddr_in6& six(const NetworkAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.bytes);
}

NetworkAddress unmapped(const NetworkAddress& address) {
  if (address.family() != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six(address).sin6_addr))
    return address;
  NetworkAddress result{.size = sizeof(sockaddr_in)};
  auto& inner = reinterpret_cast<sockaddr_in&>(result.bytes);
  inner.sin_family = AF_INET;
  inner.sin_port = six(address).sin6_port;
  std::memcpy(&inner.sin_addr, &six(address).sin6_addr.s6_addr[12], sizeof inner.sin_addr);
  return result;
}

NetworkAddress copy_of(const sockaddr* address) {
  NetworkAddress copy;
  if (address == nullptr) return copy;
  if (address->sa_family == AF_INET) copy.size = sizeof(sockaddr_in);
  if (address->sa_family == AF_INET6) copy.size = sizeof(sockaddr_in6);
  std::memcpy(&copy.bytes, address, copy.size);
  return copy;
}

/// The first address of an interface for which accept(address, interface) holds; size 0: none.
template <typename Accept>
NetworkAddress find_interface(const Accept& accept) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
  for (const ifaddrs* next = first; next != nullptr; next = next->ifa_next) {
    const NetworkAddress address = copy_of(next->ifa_addr);
    if (address.size > 0 && accept(address, *next)) return address;
  }
  return {};
}

bool same_host(const NetworkAddress& one, const NetworkAddress& other) {
  if (one.family() != other.family()) return false;
  if (one.family() == AF_INET) return four(one).sin_addr.s_addr == four(other).sin_addr.s_addr;
  return IN6_ARE_ADDR_EQUAL(&six(one).sin6_addr, &six(other).sin6_addr);
}

/// 169.254.0.0/16 and fe80::/10, as a baseboard controller's, which do not leave a link.
bool is_link_local(const NetworkAddress& address) {
  if (address.family() == AF_INET) return ntohl(four(address).sin_addr.s_addr) >> 16 == 0xA9FE;
  return address.family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six(address).sin6_addr);
}

}  // namespace

NetworkAddress local_address(int socket) {
  NetworkAddress address{.size = sizeof(sockaddr_storage)};
  if (::getsockname(socket, address.generic(), &address.size) != 0) return {};
  return address;
}

NetworkAddress peer_address(int socket) {
  NetworkAddress address{.size = sizeof(sockaddr_storage)};
  if (::getpeername(socket, address.generic(), &address.size) != 0) return {};
  return address;
}

std::string numeric_text(const NetworkAddress& address) {
  const NetworkAddress shown = unmapped(address);
  std::array<char, NI_MAXHOST> text{};
  if (shown.size == 0 || ::getnameinfo(shown.generic(), shown.size, text.data(), text.size(),
                                       nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  return text.data();
}

bool is_loopback(const NetworkAddress& address) {
  const NetworkAddress plain = unmapped(address);
  if (plain.family() == AF_INET) return ntohl(four(plain).sin_addr.s_addr) >> 24 == 127;
  return plain.family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six(plain).sin6_addr);
}

bool is_own(const NetworkAddress& address) {
  const NetworkAddress plain = unmapped(address);
  const auto equal = [&](const NetworkAddress& own, const ifaddrs&) {
    return same_host(own, plain);
  };
  return is_loopback(plain) || find_interface(equal).size > 0;
}

NetworkAddress address_of_interface(const std::string& name) {
  const auto of_family = [&](int family) {
    return find_interface([&](const NetworkAddress& own, const ifaddrs& interface) {
      return interface.ifa_name == name && own.family() == family && !is_link_local(own);
    });
  };
  const NetworkAddress found = of_family(AF_INET);
  return found.size > 0 ? found : of_family(AF_INET6);
}

/// Connecting a datagram socket only asks the routing table.
NetworkAddress source_towards(const NetworkAddress& target) {
  const UniqueFd socket(::socket(target.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), target.generic(), target.size) != 0) return {};
  return local_address(socket.get());
}

}  // namespace shampoo
