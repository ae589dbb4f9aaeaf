// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/distributor/store/raw_client.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

std::string repeated(const std::string& request, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += request;
  return all;
}

TEST(StoreServerMemory, MakesASlowReaderWaitAndNoOtherClient) {
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

TEST(StoreServerMemory, RefusesWaitsForTooManyKeysInAll) {
  const StoreServer server;
  RawClient waiting(server.port());
  waiting.send(validate());
  for (int i = 0; i < 14; ++i)
    waiting.send(bytes("06 L(10000)") + repeated(bytes("L(1) 'k'"), 10000));

  EXPECT_TRUE(waiting.is_closed());
  EXPECT_EQ(connect_store("127.0.0.1", server.port(), 30s)->add("/n", 1), 1);
}

TEST(StoreServerMemory, RefusesRepliesThatAreTooLong) {
  const StoreServer server;
  const auto other = connect_store("127.0.0.1", server.port(), 30s);
  other->set("/big", std::string(8 * mebibyte, 'v'));
  RawClient greedy(server.port());
  greedy.send(validate() + bytes("0A L(8)") + repeated(bytes("L(4) '/big'"), 8));

  EXPECT_EQ(greedy.receive(8), "");
  EXPECT_EQ(other->add("/n", 1), 1);
}

}  // namespace
}  // namespace shampoo::test
