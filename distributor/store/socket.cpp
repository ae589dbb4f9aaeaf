// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "distributor/system/time_left.h"

namespace shampoo::store {

namespace {

constexpr int stream = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

std::string reason(int error) { return std::generic_category().message(error); }

[[noreturn]] void throw_connect_error(int error) {
  if (error == ECONNREFUSED) throw ConnectionRefused("connect: " + reason(error));
  throw CommunicationError("connect: " + reason(error));
}

/// True if the socket is ready for `events`, or broken, before the deadline.
bool ready(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    const auto longest = std::min(time_left(deadline), std::chrono::milliseconds(60'000));
    pollfd polled{socket.get(), events, 0};
    const int found = ::poll(&polled, 1, static_cast<int>(longest.count()));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR && errno != EAGAIN)
      throw CommunicationError("poll: " + reason(errno));
    if (Clock::now() >= deadline) return false;
  }
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

void set_port(Address& address, std::uint16_t port) {
  if (address.family() == AF_INET6)
    reinterpret_cast<sockaddr_in6&>(address.bytes).sin6_port = htons(port);
  else
    reinterpret_cast<sockaddr_in&>(address.bytes).sin_port = htons(port);
}

Address any_address(int family) {
  Address any;
  any.bytes.ss_family = static_cast<sa_family_t>(family);
  any.size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  return any;
}

/// Without a descriptor if a step fails, whose errno is then in `error`.
Socket listen_at(const Address& address, bool both_families, int& error) {
  Socket socket(::socket(address.family(), stream, 0));
  const auto done = [&](bool succeeded) {
    error = succeeded ? 0 : errno;
    return succeeded;
  };
  if (!done(static_cast<bool>(socket))) return {};
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.family() == AF_INET6)
    set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, both_families ? 0 : 1);
  if (!done(::bind(socket.get(), address.generic(), address.size) == 0)) return {};
  if (!done(::listen(socket.get(), 4096) == 0)) return {};
  return socket;
}

/// One attempt of listen_on(). Empty if it fails, whose errno is then in `error`.
std::vector<Socket> listen_at_all(std::uint16_t port, const std::vector<Address>& addresses,
                                  int& error) {
  std::vector<Socket> sockets;
  const auto add = [&](Address address, bool both_families) {
    set_port(address, sockets.empty() ? port : port_of(sockets.front()));
    Socket socket = listen_at(address, both_families, error);
    if (socket) sockets.push_back(std::move(socket));
    return error == 0 || error == EAFNOSUPPORT || error == EADDRNOTAVAIL;
  };
  bool possible = true;
  if (addresses.empty()) {
    possible = add(any_address(AF_INET6), true);
    if (possible && sockets.empty()) possible = add(any_address(AF_INET), false);
  }
  for (const Address& address : addresses) possible = possible && add(address, false);
  if (!possible) sockets.clear();
  return sockets;
}

}  // namespace

Deadline after(std::chrono::milliseconds duration) {
  return Clock::now() + std::min<std::chrono::milliseconds>(duration, std::chrono::years(1));
}

std::vector<Address> resolve(const std::string& host, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &first);
  if (error == EAI_SYSTEM) throw CommunicationError("name lookup: " + reason(errno));
  if (error != 0) throw CommunicationError(std::string("name lookup: ") + ::gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(first, &::freeaddrinfo);

  std::vector<Address> addresses;
  for (const addrinfo* one = first; one; one = one->ai_next) {
    Address& address = addresses.emplace_back();
    address.size = one->ai_addrlen;
    std::memcpy(&address.bytes, one->ai_addr, one->ai_addrlen);
  }
  return addresses;
}

std::string place_of(const std::string& host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos;
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Socket connect_to(const Address& address, Deadline deadline) {
  Socket socket(::socket(address.family(), stream, 0));
  if (socket.get() < 0) throw CommunicationError("socket: " + reason(errno));
  make_prompt(socket);
  if (::connect(socket.get(), address.generic(), address.size) == 0) return socket;
  if (errno != EINPROGRESS && errno != EINTR) throw_connect_error(errno);
  if (!ready(socket, POLLOUT, deadline)) throw CommunicationError("connect: no answer");

  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) throw_connect_error(error);
  return socket;
}

Transfer send_all(const Socket& socket, std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0)
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!ready(socket, POLLOUT, deadline)) return Transfer::late;
    } else if (errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

Transfer receive_all(const Socket& socket, char* bytes, std::size_t size, Deadline deadline) {
  while (size > 0) {
    const ssize_t received = ::recv(socket.get(), bytes, size, 0);
    if (received > 0) {
      bytes += received;
      size -= static_cast<std::size_t>(received);
    } else if (received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (!ready(socket, POLLIN, deadline)) return Transfer::late;
    } else if (received == 0 || errno != EINTR) {
      return Transfer::closed;
    }
  }
  return Transfer::done;
}

std::vector<Address> own_addresses(const std::string& host, bool several_hosts) {
  std::vector<Address> addresses;
  try {
    addresses = resolve(host, 0);
  } catch (const CommunicationError&) {
    return {};
  }
  std::erase_if(addresses, [&](const Address& address) {
    return !is_own(address) || (several_hosts && is_loopback(address));
  });
  return addresses;
}

std::vector<Socket> listen_on(std::uint16_t port, const std::vector<Address>& addresses) {
  constexpr int most_attempts = 100;
  for (int attempt = 1;; ++attempt) {
    int error = EADDRNOTAVAIL;
    std::vector<Socket> sockets = listen_at_all(port, addresses, error);
    if (!sockets.empty()) return sockets;
    // The port that the system chose for the first address may be in use at another one.
    if (error == EADDRINUSE && port == 0 && attempt < most_attempts) continue;
    const std::string where = addresses.empty() ? "all addresses" : numeric_text(addresses.front());
    throw std::system_error(error, std::generic_category(),
                            "store: port " + std::to_string(port) + " on " + where);
  }
}

std::uint16_t port_of(const Socket& socket) {
  const Address own = local_address(socket.get());
  if (own.size == 0) throw std::system_error(errno, std::generic_category(), "store: own port");
  return ntohs(own.family() == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own.bytes).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(own.bytes).sin_port);
}

void make_prompt(const Socket& socket) {
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 6);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, 120'000);
}

}  // namespace shampoo::store
