// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "distributor/store/store_server.h"
#include "distributor/store/tcp_store.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t mebibyte = std::size_t{1} << 20;
const std::string validate = bytes("00 CE F7 85 3C");

std::string repeated(const std::string& request, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += request;
  return all;
}

TEST(StoreServerMemory, MakesASlowReaderWaitAndNobodyElse) {
  constexpr int requests = 48;
  const StoreServer server;
  const auto other = connect_store("127.0.0.1", server.port(), 30s);
  const std::string value(mebibyte, 'v'), size = bytes("L(1048576)");
  other->set("/big", value);
  const std::size_t before = resident_bytes();

  RawClient slow(server.port());
  slow.send(repeated(bytes("02 L(4) '/big'"), requests));
  for (int i = 0; i < 100; ++i) other->add("/n", 1);
  EXPECT_LT(resident_bytes(), before + 24 * mebibyte);

  for (int i = 0; i < requests; ++i) {
    ASSERT_EQ(slow.receive(8), size);
    ASSERT_EQ(slow.receive(value.size()).size(), value.size());
  }
}

TEST(StoreServerMemory, DropsSlowReadersThatHoldTooMuch) {
  const StoreServer server({.most_bytes = 32 * mebibyte});
  const auto other = connect_store("127.0.0.1", server.port(), 30s);
  other->set("/big", std::string(6 * mebibyte, 'v'));

  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 24; ++i) {
    slow.push_back(std::make_unique<RawClient>(server.port()));
    slow.back()->send(repeated(bytes("02 L(4) '/big'"), 3));
  }
  EXPECT_EQ(other->add("/n", 1), 1);
  EXPECT_EQ(other->get("/big")->size(), 6 * mebibyte);
  int dropped = 0;
  for (const auto& client : slow) {
    try {
      dropped += client->receive(3 * (6 * mebibyte + 8)).size() < 3 * (6 * mebibyte + 8);
    } catch (const std::runtime_error&) {
      ADD_FAILURE() << "neither served nor dropped";
    }
    if (dropped > 0) break;
  }
  EXPECT_GT(dropped, 0);
}

TEST(StoreServerMemory, DropsWhoHoldsLargeHalfRequests) {
  const StoreServer server({.most_bytes = 16 * mebibyte});
  RawClient small(server.port());
  small.send(bytes("00 L(1) 'k' L(1000)"));
  std::vector<std::unique_ptr<RawClient>> large;
  for (int i = 0; i < 12; ++i) {
    large.push_back(std::make_unique<RawClient>(server.port()));
    large.back()->send(bytes("00 L(1) 'k' L(8388608)") + std::string(mebibyte, 'v'));
  }

  const auto other = connect_store("127.0.0.1", server.port(), 30s);
  EXPECT_EQ(other->add("/n", 1), 1);
  small.send(std::string(1000, 's') + bytes("06"));
  EXPECT_EQ(small.receive(8), bytes("L(2)"));
  EXPECT_EQ(other->get("k"), std::string(1000, 's'));
}

TEST(StoreServerMemory, RefusesValuesThatDoNotFitAndKeepsTheOthers) {
  const StoreServer server({.most_bytes = 32 * mebibyte});
  const auto other = connect_store("127.0.0.1", server.port(), 30s, StoreProtocol::torch_2);
  other->set("/kept", "yes");
  const std::string value(mebibyte, 'v');
  RawClient greedy(server.port());
  std::string set_all = validate;
  for (int i = 0; i < 40; ++i) {
    set_all = (i == 0 ? validate : "") + bytes("01 L(2) 'k'") + static_cast<char>(i) +
              bytes("L(1048576)") + value;
    greedy.send(set_all);
  }
  greedy.send(bytes("07"));

  EXPECT_EQ(greedy.receive(8), "");
  EXPECT_EQ(other->get("/kept"), "yes");
  // A value takes the place of the one before.
  for (int i = 0; i < 40; ++i) other->set("/kept", std::to_string(i));
  EXPECT_EQ(other->get("/kept"), "39");
}

TEST(StoreServerMemory, RefusesQueuesAndWaitsThatDoNotFit) {
  const StoreServer server({.most_bytes = 8 * mebibyte});
  const std::string push = bytes("0E L(1) 'q' L(65536)") + std::string(65536, 'v');
  const std::string wait = bytes("06 L(1) L(8192)");
  RawClient pushing(server.port()), waiting(server.port());
  pushing.send(validate + repeated(push, 200) + bytes("07"));
  EXPECT_EQ(pushing.receive(8), "");

  waiting.send(validate);
  for (int i = 0; i < 1000; ++i) {
    std::string key = std::to_string(i);
    key.resize(8192, 'w');
    waiting.send(wait + key);
  }
  waiting.send(bytes("07"));
  EXPECT_EQ(waiting.receive(8), "");
  EXPECT_EQ(connect_store("127.0.0.1", server.port(), 30s)->add("/n", 1), 1);
}

}  // namespace
}  // namespace shampoo::test
