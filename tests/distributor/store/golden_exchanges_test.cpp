// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/store/golden_exchanges.h"

#include <gtest/gtest.h>

#include "distributor/store/store_server.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

void expect_each(RawClient& client, std::span<const GoldenExchange> exchanges) {
  for (const GoldenExchange& exchange : exchanges) {
    const std::string reply = bytes(exchange.reply);
    client.send(bytes(exchange.request));
    EXPECT_EQ(client.receive(reply.size()), reply) << exchange.name;
  }
  EXPECT_TRUE(client.is_silent(0ms));
}

/// One byte in each packet, as far as the machine does not join them.
void expect_bytewise(RawClient& client, std::span<const GoldenExchange> exchanges) {
  std::string replies;
  for (const GoldenExchange& exchange : exchanges) {
    for (const char byte : bytes(exchange.request)) client.send({&byte, 1});
    replies += bytes(exchange.reply);
  }
  EXPECT_EQ(client.receive(replies.size()), replies);
  EXPECT_TRUE(client.is_silent(0ms));
}

void expect_in_one_write(RawClient& client, std::span<const GoldenExchange> exchanges) {
  std::string requests, replies;
  for (const GoldenExchange& exchange : exchanges) {
    requests += bytes(exchange.request);
    replies += bytes(exchange.reply);
  }
  client.send(requests);
  EXPECT_EQ(client.receive(replies.size()), replies);
}

TEST(GoldenExchanges, OfTorch2AreOurs) {
  const StoreServer server;
  RawClient client(server.port());
  expect_each(client, golden_exchanges());
}

TEST(Server, AnswersGetsOfMissingKeysWithNothing) {
  const StoreServer server;
  RawClient client(server.port());
  client.send(validate() + bytes("03 L(2) '/q' 0A L(1) L(2) '/q'"));
  EXPECT_EQ(client.receive(16), bytes("L(0) L(0)"));
}

TEST(GoldenExchanges, OfTorch1AreOurs) {
  const StoreServer server;
  RawClient client(server.port());
  expect_each(client, golden_old_exchanges());
}

TEST(GoldenExchanges, MayComeByteByByte) {
  const StoreServer new_server, old_server;
  RawClient new_client(new_server.port()), old_client(old_server.port());
  expect_bytewise(new_client, golden_exchanges());
  expect_bytewise(old_client, golden_old_exchanges());
}

TEST(GoldenExchanges, MayComeAllAtOnce) {
  const StoreServer new_server, old_server;
  RawClient new_client(new_server.port()), old_client(old_server.port());
  expect_in_one_write(new_client, golden_exchanges());
  expect_in_one_write(old_client, golden_old_exchanges());
}

TEST(Server, EndsAWaitWhenOthersHaveSetAllKeys) {
  const StoreServer server;
  RawClient waiting(server.port()), setting(server.port());
  waiting.send(validate() + bytes("06 L(2) L(3) '/w1' L(3) '/w2' 07"));
  ASSERT_EQ(waiting.receive(8), bytes("L(0)"));

  setting.send(validate() + bytes("01 L(3) '/w1' L(0) 08 L(3) '/w1' 07"));
  ASSERT_EQ(setting.receive(16), bytes("L(1) L(0)"));
  EXPECT_TRUE(waiting.is_silent(20ms));
  setting.send(bytes("0B L(1) L(3) '/w2' L(0)"));

  EXPECT_EQ(waiting.receive(1), bytes("00"));
}

TEST(Server, EndsWaitsOfBothNumberings) {
  const StoreServer server;
  RawClient old_one(server.port()), new_one(server.port()), setting(server.port());
  old_one.send(bytes("05 L(1) L(2) '/w' 06"));
  new_one.send(validate() + bytes("06 L(1) L(2) '/w' 07"));
  ASSERT_EQ(old_one.receive(8) + new_one.receive(8), bytes("L(0) L(0)"));

  setting.send(bytes("03 L(2) '/w' L(1)"));

  EXPECT_EQ(old_one.receive(1), bytes("00"));
  EXPECT_EQ(new_one.receive(1), bytes("00"));
}

TEST(Server, AnswersTwoWaitsOfAClientOnceAtTheFirstKey) {
  const StoreServer server;
  RawClient client(server.port());
  client.send(validate() + bytes("06 L(1) L(2) '/a' 06 L(1) L(2) '/b' 01 L(2) '/a' L(0) 07"));
  EXPECT_EQ(client.receive(9), bytes("00 L(1)"));
  client.send(bytes("01 L(2) '/b' L(0) 07"));
  EXPECT_EQ(client.receive(8), bytes("L(2)"));
}

}  // namespace
}  // namespace shampoo::test
