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

#include "distributor/communicator.h"

namespace shampoo::store {

namespace {

constexpr int stream = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

std::string reason(int error) { return std::generic_category().message(error); }

/// True if the socket is ready for `events`, or broken, before the deadline.
bool ready(const Socket& socket, short events, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd polled{socket.get(), events, 0};
    const int found = ::poll(&polled, 1, static_cast<int>(std::clamp<long>(left, 0, 60'000)));
    if (found > 0) return true;
    if (found < 0 && errno != EINTR && errno != EAGAIN)
      throw CommunicationError("poll: " + reason(errno));
    if (Clock::now() >= deadline) return false;
  }
}

void set_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

const sockaddr* generic(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

/// 0, or the error of the first step that failed.
int listen_as(const Socket& socket, const sockaddr_storage& address, socklen_t size) {
  if (socket.get() < 0) return errno;
  set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  if (address.ss_family == AF_INET6) set_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (::bind(socket.get(), generic(address), size) != 0) return errno;
  return ::listen(socket.get(), 4096) == 0 ? 0 : errno;
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

Socket connect_to(const Address& address, Deadline deadline) {
  Socket socket(::socket(address.bytes.ss_family, stream, 0));
  if (socket.get() < 0) throw CommunicationError("socket: " + reason(errno));
  make_prompt(socket);
  if (::connect(socket.get(), generic(address.bytes), address.size) == 0) return socket;
  if (errno != EINPROGRESS && errno != EINTR) throw CommunicationError("connect: " + reason(errno));
  if (!ready(socket, POLLOUT, deadline)) throw CommunicationError("connect: no answer");

  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error != 0) throw CommunicationError("connect: " + reason(error));
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

Socket listen_on(std::uint16_t port) {
  sockaddr_storage any{};
  auto& six = reinterpret_cast<sockaddr_in6&>(any);
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(port);
  Socket socket(::socket(AF_INET6, stream, 0));
  int error = listen_as(socket, any, sizeof six);
  if (error == EAFNOSUPPORT || error == EADDRNOTAVAIL) {
    any = {};
    auto& four = reinterpret_cast<sockaddr_in&>(any);
    four.sin_family = AF_INET;
    four.sin_port = htons(port);
    socket = Socket(::socket(AF_INET, stream, 0));
    error = listen_as(socket, any, sizeof four);
  }
  if (error != 0)
    throw std::system_error(error, std::generic_category(),
                            "store: port " + std::to_string(port) + " on all addresses");
  return socket;
}

std::uint16_t port_of(const Socket& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "store: own port");
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<const sockaddr_in&>(own).sin_port);
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
