// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/raw_client.h"

#include <poll.h>
#include <unistd.h>

#include <fstream>
#include <stdexcept>

#include "distributor/store/wire.h"

namespace shampoo::test {

namespace {

using namespace std::chrono_literals;

store::Socket connect_here(std::uint16_t port) {
  return store::connect_to(store::resolve("127.0.0.1", port).front(), store::after(20s));
}

std::string bytes_of_word(const std::string& word) {
  if (word.starts_with('L')) return store::Message().number(std::stoll(word.substr(2))).bytes();
  if (word.starts_with('\'')) return word.substr(1, word.size() - 2);
  return {static_cast<char>(std::stoi(word, nullptr, 16))};
}

}  // namespace

std::string bytes(std::string_view notation) {
  std::string all;
  while (!notation.empty()) {
    const std::size_t end = notation.find(' ');
    if (end != 0) all += bytes_of_word(std::string(notation.substr(0, end)));
    notation.remove_prefix(end == std::string_view::npos ? notation.size() : end + 1);
  }
  return all;
}

std::string validate() { return bytes("00 CE F7 85 3C"); }

RawClient::RawClient(std::uint16_t port) : socket_(connect_here(port)) {}

void RawClient::send(std::string_view bytes) { store::send_all(socket_, bytes, store::after(20s)); }

std::string RawClient::receive(std::size_t size) {
  std::string received(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    pollfd polled{socket_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 20'000) <= 0)
      throw std::runtime_error("the server says nothing more after " + std::to_string(done) +
                               " bytes");
    const ssize_t some = ::recv(socket_.get(), received.data() + done, size - done, 0);
    if (some <= 0) break;
    done += static_cast<std::size_t>(some);
  }
  received.resize(done);
  return received;
}

bool RawClient::is_closed() {
  char byte = 0;
  return store::receive_all(socket_, &byte, 1, store::after(20s)) == store::Transfer::closed;
}

bool RawClient::is_silent(std::chrono::milliseconds duration) {
  char byte = 0;
  return store::receive_all(socket_, &byte, 1, store::after(duration)) == store::Transfer::late;
}

std::size_t resident_bytes() {
  std::size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace shampoo::test
