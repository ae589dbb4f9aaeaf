// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <system_error>
#include <thread>

#include "distributor/store/socket.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/distributor/outward_address.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

long threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), {});
}

TEST(StoreServer, ListensOnBothKindsOfAddresses) {
  const StoreServer server;
  EXPECT_GT(server.port(), 0);
  EXPECT_NE(connect_store("127.0.0.1", server.port(), 20s), nullptr);
  if (!std::filesystem::exists("/proc/net/if_inet6")) GTEST_SKIP() << "no IPv6 here";
  EXPECT_NE(connect_store("::1", server.port(), 20s), nullptr);
}

bool is_refused(const std::string& host, std::uint16_t port) {
  try {
    store::connect_to(store::resolve(host, port).front(), store::after(20s));
  } catch (const store::ConnectionRefused&) {
    return true;
  }
  return false;
}

TEST(StoreServer, ListensWhereTheRanksLookForItOnly) {
  const std::string outward = outward_address();
  if (outward.empty()) GTEST_SKIP() << "no address but the loopback's here";
  const StoreServer local({.host = "localhost", .several_hosts = false});
  EXPECT_TRUE(is_refused(outward, local.port()));
  EXPECT_NE(connect_store("localhost", local.port(), 20s), nullptr);

  const StoreServer chosen({.host = outward});
  EXPECT_TRUE(is_refused("127.0.0.1", chosen.port()));
  EXPECT_EQ(chosen.own_address(), outward);
  EXPECT_NE(connect_store(chosen.own_address(), chosen.port(), 20s), nullptr);
}

TEST(StoreServer, ListensEverywhereWhereItsNameLeadsToTheLoopbackOrNowhere) {
  for (const char* host : {"127.0.1.1", "192.0.2.77", "no.such.host.invalid"}) {
    const StoreServer server({.host = host});
    EXPECT_NE(connect_store("127.0.0.1", server.port(), 20s), nullptr) << host;
    EXPECT_NE(connect_store(server.own_address(), server.port(), 20s), nullptr) << host;
  }
}

TEST(StoreServer, NamesAPortThatIsTaken) {
  const StoreServer server;
  try {
    const StoreServer second({.port = server.port()});
    FAIL() << "two servers on one port";
  } catch (const std::system_error& error) {
    EXPECT_EQ(error.code(), std::errc::address_in_use);
    EXPECT_NE(std::string(error.what()).find(std::to_string(server.port())), std::string::npos);
  }
}

TEST(StoreServer, FindsAPortThatIsFreeAtAllOfItsAddresses) {
  const auto second = store::resolve("127.0.0.2", 0);
  std::vector<std::vector<store::Socket>> taken;
  for (int i = 0; i < 700; ++i) taken.push_back(store::listen_on(0, second));
  const std::vector<store::Address> both{store::resolve("127.0.0.1", 0).front(), second.front()};
  // One in forty of the ports that the system may choose is taken at the second address.
  for (int i = 0; i < 400; ++i) {
    const std::vector<store::Socket> sockets = store::listen_on(0, both);
    ASSERT_EQ(sockets.size(), 2U);
    EXPECT_EQ(store::port_of(sockets[0]), store::port_of(sockets[1]));
  }
}

TEST(StoreServer, TakesThePortOfOneThatIsGone) {
  auto first = std::make_unique<StoreServer>();
  const std::uint16_t port = first->port();
  const auto client = connect_store("localhost", port, 20s);
  first.reset();
  const StoreServer second({.port = port});
  EXPECT_EQ(connect_store("localhost", port, 20s)->get("/x"), std::nullopt);
}

TEST(StoreServer, RemovesTheKeysOfAnEarlierAttempt) {
  StoreServer server;
  const auto store = connect_store("localhost", server.port(), 20s);
  for (const char* key : {"launcher/a", "launcher/b", "launch", "rank/0", ""}) store->set(key, "1");

  server.remove_keys_except("launcher/");

  for (const char* key : {"launcher/a", "launcher/b"}) EXPECT_EQ(store->get(key), "1") << key;
  for (const char* key : {"launch", "rank/0", ""}) EXPECT_EQ(store->get(key), std::nullopt) << key;
}

TEST(StoreServer, EndsWithItsThreadAndAllConnections) {
  { const StoreServer first; }  // a sanitizer starts a thread of its own with the first one
  const long before = threads_of_this_process();
  for (int i = 0; i < 20; ++i) {
    auto server = std::make_unique<StoreServer>();
    RawClient half(server->port()), waiting(server->port());
    half.send(bytes("02 L(5)"));
    waiting.send(validate() + bytes("06 L(1) L(1) 'k' 07"));
    ASSERT_EQ(waiting.receive(8), bytes("L(0)"));
    server.reset();
    EXPECT_TRUE(half.is_closed());
    EXPECT_TRUE(waiting.is_closed());
  }
  // The system may show a thread for a moment after it was joined.
  for (int i = 0; i < 2000 && threads_of_this_process() > before; ++i)
    std::this_thread::sleep_for(1ms);
  EXPECT_LE(threads_of_this_process(), before);
}

TEST(StoreServer, ClosesAtWhatTorchRefuses) {
  const StoreServer server;
  for (const std::string& refused :
       {validate() + validate(), validate() + bytes("0E"), validate() + bytes("11"),
        validate() + bytes("13"), validate() + bytes("03 L(8193)"),
        validate() + bytes("01 L(1) 'k' L(8388609)"), validate() + bytes("05 L(131073)"),
        validate() + bytes("0A L(4611686018427387904)"), validate() + bytes("0B L(-1)"),
        validate() + bytes("01 L(1) 'a' L(3) 'abc' 04 L(1) 'a' L(1)"), bytes("02 L(1) 'm'"),
        bytes("07"), bytes("09"), bytes("0D"), bytes("FF"), bytes("00 CE F7 85 3D 00 00 00 00")}) {
    RawClient client(server.port());
    client.send(refused);
    EXPECT_TRUE(client.is_closed()) << testing::PrintToString(refused);
  }
  EXPECT_NE(connect_store("localhost", server.port(), 20s), nullptr);
}

}  // namespace
}  // namespace shampoo::test
