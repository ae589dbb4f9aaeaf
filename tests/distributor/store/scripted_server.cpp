// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/scripted_server.h"

#include <poll.h>

#include <algorithm>
#include <utility>

namespace shampoo::test {

namespace {

using namespace std::chrono_literals;

bool has_input(const store::Socket& socket) {
  pollfd polled{socket.get(), POLLIN, 0};
  return ::poll(&polled, 1, 10) > 0;
}

}  // namespace

ScriptedServer::ScriptedServer(std::vector<Script> scripts)
    : scripts_(std::move(scripts)),
      listener_(std::move(store::listen_on(0).front())),
      port_(store::port_of(listener_)),
      thread_([this] { run(); }) {}

ScriptedServer::~ScriptedServer() {
  stopping_ = true;
  thread_.join();
}

void ScriptedServer::run() {
  std::vector<std::thread> threads;
  while (!stopping_) {
    if (!has_input(listener_)) continue;
    store::Socket socket(
        ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) continue;
    const Script& script = scripts_[std::min(threads.size(), scripts_.size() - 1)];
    ++connections_;
    threads.emplace_back(
        [this, &script](store::Socket client) { follow(std::move(client), script); },
        std::move(socket));
  }
  for (std::thread& thread : threads) thread.join();
}

void ScriptedServer::follow(store::Socket socket, const Script& script) {
  for (const Script::Line& line : script.lines) {
    std::string request(line.expected.size(), '\0');
    store::Transfer received = store::Transfer::late;
    for (char* at = request.data(); at < request.data() + request.size() && !stopping_;)
      if (has_input(socket)) {
        received = store::receive_all(socket, at++, 1, store::after(1s));
        if (received != store::Transfer::done) return;
      }
    if (request != line.expected) return;
    store::send_all(socket, line.reply, store::after(1s));
  }
  char byte = 0;
  while (!stopping_ && !script.closes)
    if (has_input(socket) &&
        store::receive_all(socket, &byte, 1, store::after(1s)) == store::Transfer::closed)
      return;
}

}  // namespace shampoo::test
