// SPDX-License-Identifier: Apache-2.0
// A client whose connection breaks.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "distributor/communicator.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "tests/distributor/store/breaking_proxy.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

class Reconnect : public testing::Test {
 protected:
  StoreServer server_;
  BreakingProxy proxy_{server_.port()};
  std::unique_ptr<Store> store_ = connect_store("127.0.0.1", proxy_.port(), 20s);
};

TEST_F(Reconnect, RepeatsARequestWhoseReplyIsLost) {
  store_->set("/x", "1");

  proxy_.lose_replies(1);
  EXPECT_EQ(store_->get("/x"), "1");
  proxy_.lose_replies(2);
  store_->set("/x", "2");
  EXPECT_EQ(store_->get("/x"), "2");
  proxy_.lose_replies(1);
  EXPECT_EQ(store_->set_if_absent("/y", "mine"), "mine");
  proxy_.lose_replies(1);
  EXPECT_TRUE(store_->remove("/x"));
  EXPECT_EQ(proxy_.connections(), 6);
}

TEST_F(Reconnect, CountsEachAdditionOnce) {
  for (int i = 1; i <= 5; ++i) {
    proxy_.lose_replies(1);
    EXPECT_EQ(store_->add("/n", 1), i);
  }
  EXPECT_EQ(store_->get("/n"), "5");
}

TEST_F(Reconnect, WaitsOnOverANewConnection) {
  const std::vector<std::string> key{"/late"};
  std::thread other([&] {
    const auto direct = connect_store("127.0.0.1", server_.port(), 20s);
    while (server_.statistics().requests < 12) direct->get("/other");
    proxy_.lead_to(server_.port());
    direct->set("/late", "here");
  });
  EXPECT_TRUE(store_->wait(key, 20s));
  other.join();
}

TEST_F(Reconnect, FailsForGoodOnceAnotherServerAnswers) {
  const StoreServer other;
  store_->set("/x", "1");
  proxy_.lead_to(other.port());

  for (int i = 0; i < 2; ++i) try {
      store_->get("/x");
      FAIL() << "the keys of another server";
    } catch (const CommunicationError& error) {
      EXPECT_NE(std::string(error.what()).find("is now another server"), std::string::npos)
          << error.what();
    }
}

TEST_F(Reconnect, FailsAtOnceWhereNobodyListensAnyMore) {
  proxy_.stop();
  const auto begin = std::chrono::steady_clock::now();
  try {
    store_->get("/x");
    FAIL() << "no server";
  } catch (const CommunicationError& error) {
    EXPECT_NE(std::string(error.what()).find("nothing listens there any more"), std::string::npos)
        << error.what();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 10s);  // of 20
}

TEST_F(Reconnect, EndsWithTheDeadlineWhileRepliesAreLost) {
  proxy_.lose_replies(1'000'000);
  store_->set_deadline(300ms);
  EXPECT_THROW(store_->get("/x"), CommunicationError);
  proxy_.lose_replies(0);
  store_->set_deadline(20s);
  EXPECT_EQ(store_->get("/x"), std::nullopt) << "a deadline that is missed is not the end";
}

}  // namespace
}  // namespace shampoo::test
