// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/store/proof.h"
#include "distributor/store/tcp_store.h"

namespace shampoo {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using store::Deadline;

/// Connection attempts, with growing pauses and reply timeouts.
class Attempts {
 public:
  explicit Attempts(Deadline deadline) : deadline_(deadline) {}

  /// Of an attempt at the first of so many addresses.
  Deadline deadline(std::size_t addresses_left) const {
    const auto share = (deadline_ - store::Clock::now()) / static_cast<long>(addresses_left);
    return std::min<Deadline>(store::Clock::now() + share, store::after(reply_timeout_));
  }

  bool over() const { return store::Clock::now() >= deadline_; }

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
                      const std::string& secret, const Attempts& attempts) {
  const std::vector<store::Address> addresses = store::resolve(host, port);
  for (std::size_t i = 0;; ++i) {
    const std::size_t left = addresses.size() - i;
    try {
      return store::shake_hands(addresses.at(i), protocol, secret, attempts.deadline(left));
    } catch (const CommunicationError&) {
      if (left == 1) throw;
    }
  }
}

}  // namespace

std::unique_ptr<Store> connect_store(const std::string& host, std::uint16_t port,
                                     milliseconds deadline, StoreProtocol protocol,
                                     const std::string& secret) {
  if (host.empty()) throw std::invalid_argument("store: the host must not be empty");
  if (port == 0) throw std::invalid_argument("store: the port must be in [1, 65535], got 0");
  store::check_deadline(deadline);
  store::check_secret(secret);
  const std::string place = store::place_of(host, port);
  Attempts attempts(store::after(deadline));
  std::string last;
  do {
    try {
      return std::make_unique<store::TcpStore>(
          place, secret, find_peer(host, port, protocol, secret, attempts), deadline);
    } catch (const CommunicationError& error) {
      // An attempt that the deadline cuts off meets silence, whatever earlier ones have met.
      if (last.empty() || !attempts.over()) last = error.what();
    }
  } while (attempts.again());
  throw CommunicationError("store " + place + ": no answer within " +
                           std::to_string(deadline.count()) + " ms; the last attempt: " + last);
}

}  // namespace shampoo
