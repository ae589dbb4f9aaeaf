// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/own_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <optional>

#include "distributor/communicator.h"

namespace shampoo::rendezvous {
namespace {

using Found = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;
using Interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

std::string numeric(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  const int error =
      getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "";
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(four->sin_addr.s_addr) >> 24 == 127;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/// 169.254.0.0/16 and fe80::/10, as a baseboard controller's, which do not leave a link.
bool is_link_local(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* four = reinterpret_cast<const sockaddr_in*>(address);
    return ntohl(four->sin_addr.s_addr) >> 16 == 0xA9FE;
  }
  const auto* six = reinterpret_cast<const sockaddr_in6*>(address);
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
}

/// Connecting a datagram socket only asks the routing table.
std::optional<sockaddr_storage> source_towards(const addrinfo& target) {
  const int fd = socket(target.ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return std::nullopt;
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  const bool known = connect(fd, target.ai_addr, target.ai_addrlen) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0;
  close(fd);
  return known ? std::optional(own) : std::nullopt;
}

/// The address of the first interface that is up, has a carrier and leads out of this host; empty:
/// there is none.
std::string outward_address() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  const Interfaces interfaces(first, &freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    for (const ifaddrs* next = first; next != nullptr; next = next->ifa_next) {
      if (next->ifa_addr == nullptr || next->ifa_addr->sa_family != family) continue;
      constexpr unsigned usable = IFF_UP | IFF_RUNNING;
      if ((next->ifa_flags & usable) != usable) continue;
      if (is_loopback(next->ifa_addr) || is_link_local(next->ifa_addr)) continue;
      return numeric(next->ifa_addr, size);
    }
  }
  return {};
}

}  // namespace

std::string own_address_towards(const std::string& host, std::uint16_t port, bool several_hosts) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (error != 0) throw CommunicationError("join: host " + host + ": " + gai_strerror(error));
  const Found found(first, &freeaddrinfo);
  for (const addrinfo* next = first; next != nullptr; next = next->ai_next) {
    const auto own = source_towards(*next);
    if (!own) continue;
    const auto* address = reinterpret_cast<const sockaddr*>(&*own);
    std::string text = numeric(address, next->ai_addrlen);
    if (several_hosts && is_loopback(address)) {
      const std::string outward = outward_address();
      if (!outward.empty()) text = outward;
    }
    if (!text.empty()) return text;
  }
  throw CommunicationError("join: host " + host + " cannot be reached from here");
}

}  // namespace shampoo::rendezvous
