// SPDX-License-Identifier: Apache-2.0
#include "distributor/store/tcp_store.h"

#include <algorithm>
#include <array>
#include <random>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "distributor/error.h"
#include "distributor/store/handshake.h"
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
  bool remove(std::string_view key) override;
  bool wait(std::span<const std::string> keys, milliseconds longest) override;
  void set_deadline(milliseconds deadline) override;
  std::string description() const override;

 private:
  Message request(Request request) const { return {request, peer_.protocol}; }
  void send(const Message& message);
  void receive(char* bytes, std::size_t size);
  std::int64_t receive_number();
  bool check(std::span<const std::string> keys);
  [[noreturn]] void fail(const std::string& reason);

  std::string place_;
  store::Peer peer_;
  milliseconds deadline_;
  Deadline until_;       ///< of the current request
  std::string failure_;  ///< the first; all later requests meet it too
  std::uint8_t old_number_of_remove_ = 0;
};

/// SET has no reply. The question after it shows that the server has done it.
void TcpStore::set(std::string_view key, std::string_view value) {
  check_bytes(key, store::most_key_bytes, "key");
  check_bytes(value, store::most_value_bytes, "value");
  Message message = request(Request::set);
  message.text(key).text(value).append(request(Request::count_keys));
  send(message);
  receive_number();
}

std::optional<std::string> TcpStore::get(std::string_view key) {
  // Servers close the connection of whom asks for a key that is not there.
  const std::string name(key);
  if (!check({&name, 1})) return std::nullopt;
  send(request(Request::get).text(key));
  const auto size = static_cast<std::uint64_t>(receive_number());
  if (size > store::most_value_bytes)
    fail("announces a value of " + std::to_string(size) + " bytes, of at most " +
         std::to_string(store::most_value_bytes));
  std::string value(size, '\0');
  receive(value.data(), value.size());
  return value;
}

std::int64_t TcpStore::add(std::string_view key, std::int64_t amount) {
  check_bytes(key, store::most_key_bytes, "key");
  send(request(Request::add).text(key).number(amount));
  return receive_number();
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
  for (milliseconds pause = 1ms; !check(keys); pause = std::min(2 * pause, 50ms)) {
    const Deadline now = store::Clock::now();
    if (now >= end) return false;
    std::this_thread::sleep_until(std::min(now + pause, end));
  }
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

std::int64_t TcpStore::receive_number() {
  std::array<char, 8> bytes;
  receive(bytes.data(), bytes.size());
  return static_cast<std::int64_t>(store::read_number({bytes.data(), bytes.size()}));
}

bool TcpStore::check(std::span<const std::string> keys) {
  if (keys.size() > store::most_keys)
    throw std::invalid_argument("store: at most " + std::to_string(store::most_keys) +
                                " keys at once, got " + std::to_string(keys.size()));
  for (const std::string& key : keys) check_bytes(key, store::most_key_bytes, "key");
  Message message = request(Request::check);
  message.number(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) message.text(key);
  send(message);
  char missing = 0;
  receive(&missing, 1);
  if (missing != 0 && missing != 1)
    fail("answers " + std::to_string(missing) + " where only 0 and 1 make sense");
  return missing == 0;
}

/// A connection on which something failed is closed: the server must not keep half a request.
void TcpStore::fail(const std::string& reason) {
  failure_ = reason;
  peer_.socket.reset();
  throw CommunicationError("store " + description() + ": " + reason);
}

/// Attempts become more patient and rarer.
class Attempts {
 public:
  explicit Attempts(Deadline deadline) : deadline_(deadline) {}

  store::Patience patience(std::size_t addresses_left) const {
    const auto share = (deadline_ - store::Clock::now()) / static_cast<long>(addresses_left);
    return {std::min<Deadline>(store::Clock::now() + share, store::after(answer_)), silence_};
  }

  /// False: the deadline is there.
  bool again() {
    std::uniform_int_distribution<milliseconds::rep> jitter(pause_.count() / 2, pause_.count());
    const Deadline next = store::after(milliseconds(jitter(random_)));
    if (next >= deadline_) return false;
    std::this_thread::sleep_until(next);
    pause_ = std::min<milliseconds>(2 * pause_, 1s);
    silence_ = std::min<milliseconds>(2 * silence_, 10s);
    answer_ = std::min<milliseconds>(2 * answer_, 60s);
    return true;
  }

 private:
  Deadline deadline_;
  milliseconds pause_ = 10ms, silence_ = 300ms, answer_ = 5s;
  std::minstd_rand random_{std::random_device{}()};
};

/// The first address that answers. Throws CommunicationError with what the last one met.
store::Peer find_peer(const std::string& host, std::uint16_t port, StoreProtocol protocol,
                      const Attempts& attempts) {
  const std::vector<store::Address> addresses = store::resolve(host, port);
  for (std::size_t i = 0;; ++i) {
    const std::size_t left = addresses.size() - i;
    try {
      return store::shake_hands(addresses.at(i), protocol, attempts.patience(left));
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
