// SPDX-License-Identifier: Apache-2.0
// What clients send to the server of the store, in either protocol: records of one byte, client +
// 4 * size, and so many bytes; size 0: the client goes, and another one comes. Where there is one
// client only, and it does not go, its replies must not depend on where its bytes were cut.
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "distributor/store/connection.h"
#include "tests/fuzz/target.h"

namespace {

using namespace shampoo::store;
using shampoo::fuzz::require;

constexpr std::size_t clients = 4;

struct Sent {
  std::size_t client = 0;
  std::string bytes;  ///< empty: it goes
};

std::vector<Sent> records_of(std::span<const std::uint8_t> input) {
  std::vector<Sent> records;
  while (!input.empty()) {
    const std::size_t size = std::min<std::size_t>(input[0] / clients, input.size() - 1);
    const auto bytes = input.subspan(1, size);
    records.push_back({input[0] % clients, {bytes.begin(), bytes.end()}});
    input = input.subspan(1 + size);
  }
  return records;
}

/// The server without its loop.
class Server {
 public:
  struct Client {
    ClientId id;
    Socket far;  ///< the client's end
    Connection connection;
    bool open = true;
    std::string replies;
  };

  /// As the server's loop does. A refused client is closed, and what it sends later is lost.
  void send(std::size_t place, std::string_view bytes) {
    Client& client = at(place);
    if (!client.open) return;
    require(::send(client.far.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<ssize_t>(bytes.size()));
    require(client.connection.wants_input());
    client.open = client.connection.receive(scratch_.data(), scratch_.size());
    while (client.open) {
      const Connection::Step step = client.connection.answer_one(handler_);
      end_waits();
      if (step == Connection::Step::answered) continue;
      client.open = client.connection.flush() && step == Connection::Step::idle;
      break;
    }
    take_replies(client);
    if (!client.open) handler_.disconnected(client.id);
    // Whatever lengths are announced.
    require(client.connection.memory() < (std::size_t{1} << 20));
  }

  void replace(std::size_t place) {
    if (place >= clients_.size()) return;
    handler_.disconnected(clients_[place].id);
    clients_[place] = new_client();
  }

  const std::string& replies(std::size_t place) { return at(place).replies; }
  bool open(std::size_t place) { return at(place).open; }

 private:
  Client new_client() {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) == 0);
    const ClientId id = next_id_++;
    return {id, Socket(ends[0]), Connection(id, Socket(ends[1])), true, ""};
  }

  Client& at(std::size_t place) {
    while (clients_.size() <= place) clients_.push_back(new_client());
    return clients_[place];
  }

  void end_waits() {
    for (const ClientId id : handler_.take_woken())
      for (Client& client : clients_)
        if (client.id == id) {
          require(client.open);
          client.connection.end_wait();
          client.connection.flush();
          take_replies(client);
        }
  }

  /// There may be more where the buffer was filled.
  void take_replies(Client& client) {
    auto got = static_cast<ssize_t>(scratch_.size());
    while (got == static_cast<ssize_t>(scratch_.size())) {
      got = ::recv(client.far.get(), scratch_.data(), scratch_.size(), 0);
      if (got > 0) client.replies.append(scratch_.data(), static_cast<std::size_t>(got));
    }
  }

  RequestHandler handler_{std::size_t{256} << 20};
  ClientId next_id_ = 1;
  std::vector<Client> clients_;
  std::array<char, 1 << 12> scratch_{};
};

/// For one client: the same bytes in few and in many reads.
void compare_cuts(const std::vector<Sent>& records, Server& few) {
  if (records.empty()) return;
  const std::size_t at_once = 1 + records.size() % 5;
  Server many;
  for (const Sent& sent : records) {
    if (sent.client != 0 || sent.bytes.empty()) return;
    const std::string_view bytes = sent.bytes;
    for (std::size_t done = 0; done < bytes.size(); done += at_once)
      many.send(0, bytes.substr(done, at_once));
  }
  require(few.replies(0) == many.replies(0));
  require(few.open(0) == many.open(0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<Sent> records = records_of({data, size});
  Server server;
  for (const Sent& sent : records) {
    if (sent.bytes.empty()) {
      server.replace(sent.client);
    } else {
      server.send(sent.client, sent.bytes);
    }
  }
  compare_cuts(records, server);
  return 0;
}
