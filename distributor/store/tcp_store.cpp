// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/tcp_store.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <thread>
#include <utility>

#include "distributor/communicator.h"
#include "distributor/system/hmac.h"

namespace shampoo::store {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

namespace {

void check_bytes(std::string_view bytes, std::size_t most, const char* what) {
  if (bytes.size() > most)
    throw std::invalid_argument("store: a " + std::string(what) + " has at most " +
                                std::to_string(most) + " bytes, got " +
                                std::to_string(bytes.size()));
}

/// The connection of a request broke.
struct ConnectionLost {
  std::string reason;
};

}  // namespace

void check_deadline(milliseconds deadline) {
  if (deadline < 1ms)
    throw std::invalid_argument("store: the deadline must be at least 1 ms, got " +
                                std::to_string(deadline.count()));
}

template <typename Exchange>
auto TcpStore::request(const Exchange& exchange) {
  until_ = after(deadline_);
  for (milliseconds pause = 10ms;; pause = std::min(2 * pause, 1'000ms)) {
    if (!failure_.empty()) fail(failure_);
    try {
      if (!peer_.socket) connect_again();
      return exchange();
    } catch (const ConnectionLost& lost) {
      peer_.socket.reset();
      if (!is_extended()) fail(lost.reason);
      if (Clock::now() + pause >= until_)
        throw CommunicationError("store " + description() + ": " + lost.reason);
      std::this_thread::sleep_for(pause);
    }
  }
}

void TcpStore::connect_again() {
  constexpr milliseconds longest{5'000};
  std::string instance;
  try {
    const Deadline deadline = std::min(until_, after(longest));
    Peer peer = shake_hands(peer_.address, peer_.protocol, secret_, deadline);
    instance = std::exchange(peer.instance, peer_.instance);
    peer_ = std::move(peer);
  } catch (const ConnectionRefused&) {
    fail("closed the connection, and nothing listens there any more");
  } catch (const CommunicationError& error) {
    throw ConnectionLost{std::string("closed the connection, then: ") + error.what()};
  }
  if (instance != peer_.instance) fail("closed the connection, and is now another server");
}

/// SET has no reply; that to the request after it confirms the SET.
void TcpStore::set(std::string_view key, std::string_view value) {
  check_bytes(key, most_key_bytes, "key");
  check_bytes(value, most_value_bytes, "value");
  request([&] {
    send(message(Request::set).text(key).text(value).raw(message(Request::count_keys).bytes()));
    receive_number();
  });
}

std::optional<std::string> TcpStore::get(std::string_view key) {
  const std::string name(key);
  check_keys({&name, 1});
  return request([&]() -> std::optional<std::string> {
    if (is_extended()) {
      send(message(Request::find).text(key));
      if (!receive_flag()) return std::nullopt;
      return receive_text();
    }
    // Some servers close the connection at a GET of a missing key.
    if (!check({&name, 1})) return std::nullopt;
    send(message(Request::get).text(key));
    return receive_text();
  });
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t amount) {
  check_bytes(key, most_key_bytes, "key");
  const std::string name = is_extended() ? random_bytes(request_name_bytes) : "";
  return request([&] {
    if (is_extended())
      send(message(Request::add_once).text(key).number(amount).raw(name));
    else
      send(message(Request::add).text(key).number(amount));
    return receive_number();
  });
}

/// COMPARE_SET with an empty expected value.
std::string TcpStore::set_if_absent(std::string_view key, std::string_view desired) {
  check_bytes(key, most_key_bytes, "key");
  check_bytes(desired, most_value_bytes, "value");
  return request([&] {
    send(message(Request::compare_set).text(key).text("").text(desired));
    return receive_text();
  });
}

bool TcpStore::remove(std::string_view key) {
  check_bytes(key, most_key_bytes, "key");
  bool repeated = false;
  return request([&] {
    send((peer_.protocol == StoreProtocol::torch_1 ? Message().byte(old_number_of_remove())
                                                   : message(Request::remove))
             .text(key));
    const bool may_have_been = std::exchange(repeated, true);
    return receive_number() > 0 || may_have_been;
  });
}

std::uint8_t TcpStore::old_number_of_remove() {
  try {
    if (old_number_of_remove_ == 0)
      old_number_of_remove_ = store::old_number_of_remove(peer_.address, until_);
  } catch (const CommunicationError& error) {
    fail(error.what());
  }
  return old_number_of_remove_;
}

bool TcpStore::wait(std::span<const std::string> keys, milliseconds longest) {
  if (longest < 0ms)
    throw std::invalid_argument("store: the longest wait must be at least 0 ms, got " +
                                std::to_string(longest.count()));
  check_keys(keys);
  const Deadline end = after(longest);
  if (peer_.protocol == StoreProtocol::torch_2 && longest > 0ms)
    return request([&] { return wait_in_server(keys, end); });
  // A WAIT of older releases cannot be cancelled.
  const auto found = [&] { return request([&] { return check(keys); }); };
  for (milliseconds pause = 1ms; !found(); pause = std::min(2 * pause, 50ms)) {
    const Deadline now = Clock::now();
    if (now >= end) return false;
    std::this_thread::sleep_until(std::min(now + pause, end));
  }
  return true;
}

bool TcpStore::wait_in_server(std::span<const std::string> keys, Deadline end) {
  send(message(Request::wait).texts(keys));
  char reply = 0;
  const Transfer received = receive_all(peer_.socket, &reply, 1, end);
  until_ = after(deadline_);
  if (received == Transfer::closed) throw ConnectionLost{"closed the connection"};
  if (received == Transfer::done) {
    if (reply != 0) fail("answers a WAIT with " + std::to_string(reply));
    return true;
  }
  send(message(Request::cancel_wait));
  if (receive_flag()) return false;
  receive_flag();  // the WAIT had ended before it was cancelled
  return true;
}

void TcpStore::set_deadline(milliseconds deadline) {
  check_deadline(deadline);
  deadline_ = deadline;
}

std::string TcpStore::description() const {
  return place_ + (peer_.protocol == StoreProtocol::torch_1 ? ", protocol of torch up to 2.1"
                                                            : ", protocol of torch 2.2 and later");
}

void TcpStore::send(const Message& message) {
  const Transfer sent = send_all(peer_.socket, message.bytes(), until_);
  if (sent == Transfer::closed) throw ConnectionLost{"closed the connection"};
  if (sent == Transfer::late) throw_late("took no request");
}

void TcpStore::receive(char* bytes, std::size_t size) {
  const Transfer received = receive_all(peer_.socket, bytes, size, until_);
  if (received == Transfer::closed) throw ConnectionLost{"closed the connection"};
  if (received == Transfer::late) throw_late("did not answer");
}

/// A byte that is 0 or 1.
bool TcpStore::receive_flag() {
  char flag = 0;
  receive(&flag, 1);
  if (flag != 0 && flag != 1) fail("answers " + std::to_string(flag) + ", expected 0 or 1");
  return flag == 1;
}

std::int64_t TcpStore::receive_number() {
  std::array<char, 8> bytes;
  receive(bytes.data(), bytes.size());
  return static_cast<std::int64_t>(read_number({bytes.data(), bytes.size()}));
}

std::string TcpStore::receive_text() {
  const auto size = static_cast<std::uint64_t>(receive_number());
  if (size > most_value_bytes)
    fail("announces a value of " + std::to_string(size) + " bytes, of at most " +
         std::to_string(most_value_bytes));
  std::string value(size, '\0');
  receive(value.data(), value.size());
  return value;
}

void TcpStore::check_keys(std::span<const std::string> keys) const {
  if (keys.size() > most_keys)
    throw std::invalid_argument("store: at most " + std::to_string(most_keys) +
                                " keys at once, got " + std::to_string(keys.size()));
  for (const std::string& key : keys) check_bytes(key, most_key_bytes, "key");
}

bool TcpStore::check(std::span<const std::string> keys) {
  send(message(Request::check).texts(keys));
  return !receive_flag();
}

/// Closes the connection, so that the server does not keep half a request, nor the client take a
/// late reply for that to the next one.
void TcpStore::throw_late(const std::string& what) {
  const std::string reason = what + " within " + std::to_string(deadline_.count()) + " ms";
  if (!is_extended()) fail(reason);
  peer_.socket.reset();
  throw CommunicationError("store " + description() + ": " + reason);
}

void TcpStore::fail(const std::string& reason) {
  failure_ = reason;
  peer_.socket.reset();
  throw CommunicationError("store " + description() + ": " + reason);
}

}  // namespace shampoo::store
