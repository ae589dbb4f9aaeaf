// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdlib>
#include <ostream>

#include "distributor/communicator.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/distributor/store/golden_exchanges.h"
#include "tests/distributor/store/python.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

/// An installed torch: Debian's, or that of the interpreter named by SHAMPOO_TORCH_PYTHON.
struct Installed {
  std::string name;
  bool newer = false;
  std::string libuv = "0";  ///< 1: with its server of that kind
};

std::ostream& operator<<(std::ostream& out, const Installed& one) { return out << one.name; }

class Torch : public testing::TestWithParam<Installed> {
 protected:
  void SetUp() override {
    const char* named = std::getenv("SHAMPOO_TORCH_PYTHON");
    if (GetParam().newer && !named) GTEST_SKIP() << "SHAMPOO_TORCH_PYTHON is not set";
    interpreter_ = GetParam().newer ? named : "/usr/bin/python3";
  }

  Python start(const char* script, const std::string& argument) const {
    return {interpreter_, {std::string(SCRIPTS "/") + script, argument}};
  }

  std::string interpreter_;
};

constexpr const char* no_torch = "no torch";

void expect_values(std::uint16_t port, bool newer) {
  const auto store = connect_store("127.0.0.1", port, 30s);
  const auto second = connect_store("127.0.0.1", port, 30s);
  const std::string large(std::size_t{8} << 20, 'x');
  const std::vector<std::string> keys{"/a", "/b"};

  EXPECT_NE(store->description().find(newer ? "2.2 and later" : "up to 2.1"), std::string::npos);
  EXPECT_EQ(store->get("/from python"), "hello");
  store->set("/a", "one");
  EXPECT_EQ(second->get("/a"), "one");
  EXPECT_EQ(store->get("/none"), std::nullopt);
  EXPECT_EQ(store->add("/n", 5), 5);
  EXPECT_EQ(second->add("/n", -7), -2);
  EXPECT_FALSE(store->wait(keys, 20ms));
  second->set("/b", large);
  EXPECT_TRUE(store->wait(keys, 30s));
  EXPECT_EQ(store->get("/b"), large);
  EXPECT_EQ(store->set_if_absent("/c", "first"), "first");
  EXPECT_EQ(second->set_if_absent("/c", "second"), "first");
  EXPECT_TRUE(store->remove("/a"));
  EXPECT_FALSE(second->remove("/a"));
  EXPECT_EQ(store->get("/a"), std::nullopt);
  for (const char* key : {"/n", "/b", "/c"}) EXPECT_TRUE(store->remove(key));
}

void expect_each(std::uint16_t port, std::span<const GoldenExchange> exchanges) {
  RawClient client(port);
  for (const GoldenExchange& exchange : exchanges) {
    const std::string reply = bytes(exchange.reply);
    client.send(bytes(exchange.request));
    ASSERT_EQ(client.receive(reply.size()), reply) << exchange.name;
  }
  EXPECT_TRUE(client.is_silent(0ms));
}

class TorchServer : public Torch {};
class TorchClient : public Torch {};

TEST_P(TorchServer, ServesOurClientsAndAgreesWithTheRecordedExchanges) {
  const bool newer = GetParam().newer;
  Python master = start("torch_master.py", GetParam().libuv);
  const std::string line = master.read_line();
  if (line == no_torch) GTEST_SKIP() << interpreter_ << " has no torch with a store";
  const auto port = static_cast<std::uint16_t>(std::stoi(line));

  const StoreProtocol other = newer ? StoreProtocol::torch_1 : StoreProtocol::torch_2;
  EXPECT_THROW(connect_store("127.0.0.1", port, 500ms, other), CommunicationError);
  expect_values(port, newer);
  ASSERT_TRUE(connect_store("127.0.0.1", port, 30s)->remove("/from python"));
  expect_each(port, newer ? golden_exchanges() : golden_old_exchanges());
}

TEST_P(TorchClient, IsServedByUs) {
  const StoreServer server;
  Python client = start("torch_client.py", std::to_string(server.port()));
  const std::string line = client.read_line();
  if (line == no_torch) GTEST_SKIP() << interpreter_ << " has no torch with a store";
  EXPECT_EQ(line, "well");
  EXPECT_EQ(client.finish(), 0);
  EXPECT_EQ(connect_store("127.0.0.1", server.port(), 30s)->get("/n"), "-2");
}

INSTANTIATE_TEST_SUITE_P(Of, TorchServer,
                         testing::Values(Installed{"Debian", false, "0"},
                                         Installed{"newer", true, "0"},
                                         Installed{"newer_libuv", true, "1"}),
                         [](const auto& of) { return of.param.name; });
INSTANTIATE_TEST_SUITE_P(Of, TorchClient,
                         testing::Values(Installed{"Debian", false}, Installed{"newer", true}),
                         [](const auto& of) { return of.param.name; });

}  // namespace
}  // namespace shampoo::test
