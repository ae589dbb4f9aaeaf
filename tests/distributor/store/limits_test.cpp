// SPDX-License-Identifier: Apache-2.0
// What clients can take of a server's connections and memory.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <ctime>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/store/key_table.h"
#include "distributor/store/socket.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/distributor/outward_address.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clients = std::vector<std::unique_ptr<RawClient>>;

Clients connect(const StoreServer& server, int count, const std::string& bytes) {
  Clients clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    if (!bytes.empty()) clients.back()->send(bytes);
  }
  return clients;
}

TEST(StoreLimits, OptionsOutOfRangeAreRefused) {
  for (const auto time : {-1ms, 0ms, std::chrono::milliseconds::max()})
    EXPECT_THROW(StoreServer({.greeting_time = time}), std::invalid_argument);
  EXPECT_THROW(StoreServer({.most_bytes = 0}), std::invalid_argument);
}

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

TEST(StoreLimits, AServerWithoutDescriptorsPausesAndThenAcceptsAgain) {
  const StoreServer server;
  const store::Socket waiting(::socket(AF_INET6, SOCK_STREAM, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none_left{static_cast<rlim_t>(waiting.get()) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none_left), 0);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(server.port());
  address.sin6_addr = in6addr_loopback;
  ASSERT_EQ(::connect(waiting.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const double before = processor_seconds();
  std::this_thread::sleep_for(1s);
  EXPECT_LT(processor_seconds() - before, 0.5);

  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto rank = connect_store("127.0.0.1", server.port(), 20s);
  EXPECT_EQ(rank->get("/x"), std::nullopt);
}

TEST(StoreLimits, IdleAskersMakeRoom) {
  const StoreServer server({.most_connections = 40});
  const auto rank = connect_store("127.0.0.1", server.port(), 20s);
  rank->set("/rank", "0");
  const Clients idle = connect(server, 100, validate() + bytes("0D") + "ping");

  const auto late = connect_store("127.0.0.1", server.port(), 20s);
  late->set("/rank", "1");
  EXPECT_EQ(rank->get("/rank"), "1");
  EXPECT_LE(server.statistics().most_connections, 40U);
}

TEST(StoreLimits, ConnectionsThatSayNothingAreClosedInTime) {
  const StoreServer server({.greeting_time = 100ms});
  const auto rank = connect_store("127.0.0.1", server.port(), 20s);
  const Clients silent = connect(server, 5, ""), half = connect(server, 5, bytes("02 L(5)"));
  for (const Clients* clients : {&silent, &half})
    for (const auto& client : *clients) EXPECT_TRUE(client->is_closed());
  EXPECT_EQ(rank->get("/x"), std::nullopt);
  EXPECT_EQ(server.statistics().connections, 1U);
}

TEST(StoreLimits, ConnectionsThatDoNotProveTheSecretAreClosedInTime) {
  const StoreServer server({.secret = "0123456789abcdef", .greeting_time = 100ms});
  const Clients clients = connect(server, 3, validate() + "\x80" + std::string(32, 'c'));
  for (const auto& client : clients) {
    EXPECT_EQ(client->receive(64).size(), 64U);
    EXPECT_TRUE(client->is_closed());
  }
}

TEST(StoreLimits, StrangersOfOneHostGetHalfOfTheConnectionsOfAServerWithASecret) {
  const std::string secret = "0123456789abcdef";
  const StoreServer server({.secret = secret, .most_connections = 20});
  Clients strangers = connect(server, 10, validate());
  const Clients refused = connect(server, 20, "");
  for (const auto& client : refused) EXPECT_TRUE(client->is_closed());
  EXPECT_LE(server.statistics().most_connections, 10U);
  strangers.resize(5);
  EXPECT_NE(connect_store("127.0.0.1", server.port(), 20s, StoreProtocol::torch_2, secret),
            nullptr);
}

TEST(StoreLimits, OneHostFillsHalfOfTheTable) {
  constexpr std::size_t most = std::size_t{1} << 20;
  const StoreServer server({.most_bytes = most});
  const auto greedy = connect_store("127.0.0.1", server.port(), 300ms);
  const std::string value(64 << 10, 'v');
  int stored = 0;
  try {
    for (; stored < 100; ++stored) greedy->set("/" + std::to_string(stored), value);
  } catch (const CommunicationError&) {
  }
  EXPECT_EQ(stored, 7);
  EXPECT_LE(server.statistics().most_bytes, most / 2);

  if (outward_address().empty()) GTEST_SKIP() << "no second address here";
  const auto other = connect_store(outward_address(), server.port(), 20s);
  other->set("/mine", value);
  EXPECT_EQ(other->get("/mine"), value);
}

TEST(StoreLimits, TableCountsWhatIsReplacedAndRemoved) {
  store::KeyTable table(4096);
  const store::Account host{"10.0.0.1"}, other{"10.0.0.2"};
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(table.set("k", std::string(1500, 'v'), host));
  EXPECT_FALSE(table.set("l", std::string(1500, 'v'), host));
  EXPECT_TRUE(table.set("l", std::string(1500, 'v'), other));
  EXPECT_FALSE(table.set("m", std::string(1500, 'v'), store::Account::ours()));
  EXPECT_TRUE(table.set("k", std::string(1500, 'w'), other) == false);
  EXPECT_EQ(table.find("k")->front(), 'v');
  EXPECT_TRUE(table.remove("k"));
  EXPECT_TRUE(table.set("m", std::string(1500, 'v'), store::Account::ours()));
  table.remove_all_except("nothing");
  EXPECT_EQ(table.bytes(), 0U);
}

TEST(StoreLimits, HalfRequestsOfOneClientEndBeforeTheMemoryDoes) {
  const StoreServer server;
  const auto rank = connect_store("127.0.0.1", server.port(), 20s);
  const std::size_t before = resident_bytes();
  Clients clients;
  const std::string half = validate() + bytes("0B L(8)");
  const std::string field = bytes("L(1) 'k' L(8000000)") + std::string(8'000'000, 'v');
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(server.port()));
    clients.back()->send(half);
    for (int j = 0; j < 6; ++j) clients.back()->send(field);
  }
  rank->set("/x", "1");
  EXPECT_EQ(rank->get("/x"), "1");
  EXPECT_LT(resident_bytes(), before + 700 * mebibyte);
  EXPECT_LT(server.statistics().connections, 9U) << "384 MB wait for their ends";
}

}  // namespace
}  // namespace shampoo::test
