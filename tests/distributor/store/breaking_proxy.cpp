// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/breaking_proxy.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace shampoo::test {

namespace {

using namespace std::chrono_literals;

bool has_input(const store::Socket& socket, int longest_ms) {
  pollfd polled{socket.get(), POLLIN, 0};
  return ::poll(&polled, 1, longest_ms) > 0;
}

}  // namespace

BreakingProxy::BreakingProxy(std::uint16_t server_port)
    : listener_(std::move(store::listen_on(0).front())),
      port_(store::port_of(listener_)),
      server_port_(server_port),
      thread_([this] { run(); }) {}

BreakingProxy::~BreakingProxy() { stop(); }

void BreakingProxy::lead_to(std::uint16_t server_port) {
  server_port_ = server_port;
  breaks_all_ = true;
  while (breaks_all_) std::this_thread::yield();
}

void BreakingProxy::stop() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
  links_.clear();
  listener_.reset();
}

void BreakingProxy::run() {
  while (!stopping_) {
    if (breaks_all_.exchange(false)) links_.clear();
    if (has_input(listener_, 1)) {
      store::Socket client(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK));
      const auto server = store::resolve("127.0.0.1", server_port_).front();
      links_.push_back({std::move(client), store::connect_to(server, store::after(20s))});
      ++connections_;
    }
    std::erase_if(links_,
                  [&](Link& link) { return !forward(link, false) || !forward(link, true); });
  }
}

/// False: the connection is broken.
bool BreakingProxy::forward(Link& link, bool from_server) {
  const store::Socket& from = from_server ? link.server : link.client;
  const store::Socket& to = from_server ? link.client : link.server;
  if (!has_input(from, 0)) return true;
  std::array<char, 4096> bytes;
  const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), 0);
  if (count <= 0) return false;
  if (from_server && to_lose_ > 0) {
    --to_lose_;
    return false;
  }
  const std::string_view sent(bytes.data(), static_cast<std::size_t>(count));
  return store::send_all(to, sent, store::after(20s)) == store::Transfer::done;
}

}  // namespace shampoo::test
