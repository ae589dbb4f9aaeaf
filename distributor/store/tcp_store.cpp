// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/store/handshake.h"
#include "distributor/store/store.h"
#include "distributor/store/wire.h"

namespace shampoo {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using store::Deadline;
using store::Message;
using store::Request;
using store::Transfer;

std::string place_of(const std::string& host, std::uint16_t port) {
  const bool bare_ipv6 = host.find(':') != std::string::npos;
  return (bare_ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void check_deadline(milliseconds deadline) {
  if (deadline < 1ms)
    throw std::invalid_argument("store: the deadline must be at least 1 ms, got " +
                                std::to_string(deadline.count()));
}

void check_bytes(std::string_view bytes, std::size_t most, const char* what) {
  if (bytes.size() > most)
    throw std::invalid_argument("store: a " + std::string(what) + " has at most " +
                                std::to_string(most) + " bytes, got " +
                                std::to_string(bytes.size()));
}

class TcpStore final : public Store {
 public:
  TcpStore(std::string place, store::Peer peer, milliseconds deadline)
      : place_(std::move(place)), peer_(std::move(peer)), deadline_(deadline) {}

  void set(std::string_view key, std::string_view value) override;
  std::optional<std::string> get(std::string_view key) override;
  std::int64_t add(std::string_view key, std::int64_t amount) override;
  std::string set_if_absent(std::string_view key, std::string_view desired) override;
  bool remove(std::string_view key) override;
  bool wait(std::span<const std::string> keys, milliseconds longest) override;
  void set_deadline(milliseconds deadline) override;
  std::string description() const override;

 private:
  Message request(Request request) const { return {request, peer_.protocol}; }
  void send(const Message& message);
  void receive(char* bytes, std::size_t size);
  bool receive_flag();
  std::int64_t receive_number();
  std::string receive_text();
  void check_keys(std::span<const std::string> keys) const;
  bool check(std::span<const std::string> keys);
  bool wait_in_server(std::span<const std::string> keys, Deadline end);
  [[noreturn]] void fail(const std::string& reason);

  std::string place_;
  store::Peer peer_;
  milliseconds deadline_;
  Deadline until_;       ///< of the current request
  std::string failure_;  ///< the first one; all later requests fail with it too
  std::uint8_t old_number_of_remove_ = 0;
};

/// SET has no reply; that to the request after it confirms the SET.
void TcpStore::set(std::string_view key, std::string_view value) {
  check_bytes(key, store::most_key_bytes, "key");
  check_bytes(value, store::most_value_bytes, "value");
  Message message = request(Request::set);
  message.text(key).text(value).append(request(Request::count_keys));
  send(message);
  receive_number();
}

std::optional<std::string> TcpStore::get(std::string_view key) {
  // Some servers close the connection at a GET of a missing key.
  const std::string name(key);
  if (!check({&name, 1})) return std::nullopt;
  send(request(Request::get).text(key));
  return receive_text();
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t amount) {
  check_bytes(key, store::most_key_bytes, "key");
  send(request(Request::add).text(key).number(amount));
  return receive_number();
}

/// COMPARE_SET with an empty expected value.
std::string TcpStore::set_if_absent(std::string_view key, std::string_view desired) {
  check_bytes(key, store::most_key_bytes, "key");
  check_bytes(desired, store::most_value_bytes, "value");
  send(request(Request::compare_set).text(key).text("").text(desired));
  return receive_text();
}

bool TcpStore::remove(std::string_view key) {
  check_bytes(key, store::most_key_bytes, "key");
  Message message = request(Request::remove);
  if (peer_.protocol == StoreProtocol::torch_1) {
    if (!failure_.empty()) fail(failure_);
    try {
      if (old_number_of_remove_ == 0)
        old_number_of_remove_ = store::old_number_of_remove(peer_.address, store::after(deadline_));
    } catch (const CommunicationError& error) {
      fail(error.what());
    }
    message = Message().byte(old_number_of_remove_);
  }
  send(message.text(key));
  return receive_number() > 0;
}

bool TcpStore::wait(std::span<const std::string> keys, milliseconds longest) {
  if (longest < 0ms)
    throw std::invalid_argument("store: the longest wait must be at least 0 ms, got " +
                                std::to_string(longest.count()));
  const Deadline end = store::after(longest);
  if (peer_.protocol == StoreProtocol::torch_2 && longest > 0ms) return wait_in_server(keys, end);
  // A WAIT of older releases cannot be cancelled.
  for (milliseconds pause = 1ms; !check(keys); pause = std::min(2 * pause, 50ms)) {
    const Deadline now = store::Clock::now();
    if (now >= end) return false;
    std::this_thread::sleep_until(std::min(now + pause, end));
  }
  return true;
}

bool TcpStore::wait_in_server(std::span<const std::string> keys, Deadline end) {
  check_keys(keys);
  send(request(Request::wait).texts(keys));
  char reply = 0;
  const Transfer received = store::receive_all(peer_.socket, &reply, 1, end);
  if (received == Transfer::closed) fail("closed the connection");
  if (received == Transfer::done) {
    if (reply != 0) fail("answers a WAIT with " + std::to_string(reply));
    return true;
  }
  send(request(Request::cancel_wait));
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
  if (!failure_.empty()) fail(failure_);
  until_ = store::after(deadline_);
  const Transfer sent = store::send_all(peer_.socket, message.bytes(), until_);
  if (sent == Transfer::closed) fail("closed the connection");
  if (sent == Transfer::late)
    fail("took no request within " + std::to_string(deadline_.count()) + " ms");
}

void TcpStore::receive(char* bytes, std::size_t size) {
  const Transfer received = store::receive_all(peer_.socket, bytes, size, until_);
  if (received == Transfer::closed) fail("closed the connection");
  if (received == Transfer::late)
    fail("did not answer within " + std::to_string(deadline_.count()) + " ms");
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
  return static_cast<std::int64_t>(store::read_number({bytes.data(), bytes.size()}));
}

std::string TcpStore::receive_text() {
  const auto size = static_cast<std::uint64_t>(receive_number());
  if (size > store::most_value_bytes)
    fail("announces a value of " + std::to_string(size) + " bytes, of at most " +
         std::to_string(store::most_value_bytes));
  std::string value(size, '\0');
  receive(value.data(), value.size());
  return value;
}

void TcpStore::check_keys(std::span<const std::string> keys) const {
  if (keys.size() > store::most_keys)
    throw std::invalid_argument("store: at most " + std::to_string(store::most_keys) +
                                " keys at once, got " + std::to_string(keys.size()));
  for (const std::string& key : keys) check_bytes(key, store::most_key_bytes, "key");
}

bool TcpStore::check(std::span<const std::string> keys) {
  check_keys(keys);
  send(request(Request::check).texts(keys));
  return !receive_flag();
}

/// Closes the connection after a failure, so that the server does not keep half a request.
void TcpStore::fail(const std::string& reason) {
  failure_ = reason;
  peer_.socket.reset();
  throw CommunicationError("store " + description() + ": " + reason);
}

/// Connection attempts, with growing pauses and reply timeouts.
class Attempts {
 public:
  explicit Attempts(Deadline deadline) : deadline_(deadline) {}

  /// Of an attempt at the first of so many addresses.
  Deadline deadline(std::size_t addresses_left) const {
    const auto share = (deadline_ - store::Clock::now()) / static_cast<long>(addresses_left);
    return std::min<Deadline>(store::Clock::now() + share, store::after(reply_timeout_));
  }

  /// Pauses. False: the deadline would be over.
  bool again() {
    std::uniform_int_distribution<milliseconds::rep> jitter(pause_.count() / 2, pause_.count());
    const Deadline next = store::after(milliseconds(jitter(random_)));
    if (next >= deadline_) return false;
    std::this_thread::sleep_until(next);
    pause_ = std::min<milliseconds>(2 * pause_, 1s);
    reply_timeout_ = std::min<milliseconds>(2 * reply_timeout_, 60s);
    return true;
  }

 private:
  Deadline deadline_;
  milliseconds pause_ = 10ms, reply_timeout_ = 5s;
  std::minstd_rand random_{std::random_device{}()};
};

/// Connects to the first address that answers. Throws CommunicationError of the last one.
store::Peer find_peer(const std::string& host, std::uint16_t port, StoreProtocol protocol,
                      const Attempts& attempts) {
  const std::vector<store::Address> addresses = store::resolve(host, port);
  for (std::size_t i = 0;; ++i) {
    const std::size_t left = addresses.size() - i;
    try {
      return store::shake_hands(addresses.at(i), protocol, attempts.deadline(left));
    } catch (const CommunicationError&) {
      if (left == 1) throw;
    }
  }
}

}  // namespace

std::unique_ptr<Store> connect_store(const std::string& host, std::uint16_t port,
                                     milliseconds deadline, StoreProtocol protocol) {
  if (host.empty()) throw std::invalid_argument("store: the host must not be empty");
  if (port == 0) throw std::invalid_argument("store: the port must be in [1, 65535], got 0");
  check_deadline(deadline);
  const std::string place = place_of(host, port);
  Attempts attempts(store::after(deadline));
  std::string last;
  do {
    try {
      return std::make_unique<TcpStore>(place, find_peer(host, port, protocol, attempts), deadline);
    } catch (const CommunicationError& error) {
      last = error.what();
    }
  } while (attempts.again());
  throw CommunicationError("store " + place + ": no answer within " +
                           std::to_string(deadline.count()) + " ms; the last attempt: " + last);
}

}  // namespace shampoo
