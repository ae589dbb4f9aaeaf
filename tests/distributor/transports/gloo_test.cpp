// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/gloo/gloo.h"

#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/gloo_ranks.h"
#include "tests/distributor/transports/transport_processes.h"
#include "tests/support/gloo_counter.h"
#include "tests/support/memory_store.h"

namespace shampoo::test {
namespace {

using Counts = std::vector<std::int64_t>;

class GlooProcesses : public testing::TestWithParam<int> {};

TEST_P(GlooProcesses, Conform) {
  const StoreProcess server;
  const int size = GetParam();
  const auto endings = run_processes(size, [&](int rank) -> std::string {
    const auto ranks = gloo_rank(rank, size, server);
    require(conform(*ranks) == checksum_of_threads(rank, size), "sums differ from threads'");
    return ranks->description();
  });
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.status, 0) << ending.said;
    EXPECT_NE(ending.said.find("Gloo"), std::string::npos) << ending.said;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, GlooProcesses, testing::Values(1, 2, 3, 4),
                         testing::PrintToStringParamName());

TEST(Gloo, MakesOneCollectiveOfOne) {
  const StoreProcess server;
  const auto endings = run_processes(2, [&](int rank) -> std::string {
    const auto ranks = gloo_rank(rank, 2, server);
    std::vector<char> data(2);
    const Counts ones(2, 1);
    std::int64_t before = gloo_collectives();
    const auto once = [&](CollectiveHandle completion, const char* what) {
      completion.wait();
      require(gloo_collectives() == ++before, what);
    };
    once(ranks->all_gather(data.data(), ones), "all_gather");
    once(ranks->broadcast(data.data(), 1, 0), "broadcast");
    once(ranks->barrier(), "barrier");
    return "counted";
  });
  for (const Ending& ending : endings) EXPECT_EQ(ending.said, "counted");
}

/// Gives rank 1's address to rank 0 when rank 1 has closed, but after 300 ms at the latest.
class HoldingStore final : public MemoryStore {
 public:
  std::optional<std::string> get(std::string_view key) override {
    if (key == "test/address/rank/1")
      closed_before = closed.wait_for(std::chrono::milliseconds(300)) == std::future_status::ready;
    return MemoryStore::get(key);
  }

  std::promise<void> close;
  std::future<void> closed = close.get_future();
  std::optional<bool> closed_before;
};

TEST(Gloo, RankThatClosesAtOnceDoesSoWhenAllAreConnected) {
  const auto store = std::make_shared<HoldingStore>();
  const auto connect_and_close = [&](int rank, const std::string& host) -> std::string {
    try {
      gloo_communicator({.rank = rank, .size = 2}, store,
                        {.prefix = "test", .host = host, .deadline = std::chrono::seconds(10)});
    } catch (const std::exception& error) {
      return error.what();
    }
    return "connected";
  };
  // The rank with the higher address connects without the other's participation.
  auto one = std::async(std::launch::async, [&] {
    std::string said = connect_and_close(1, "127.0.0.2");
    store->close.set_value();
    return said;
  });

  EXPECT_EQ(connect_and_close(0, "127.0.0.1"), "connected");
  EXPECT_EQ(one.get(), "connected");
  EXPECT_EQ(store->closed_before, false);
}

TEST(Gloo, RejectsInvalidArguments) {
  const auto store = std::make_shared<MemoryStore>();
  EXPECT_THROW(gloo_communicator({.rank = 2, .size = 2}, store), std::invalid_argument);
  EXPECT_THROW(gloo_communicator({.rank = 0, .size = 0}, store), std::invalid_argument);
  EXPECT_THROW(gloo_communicator({}, nullptr), std::invalid_argument);
  EXPECT_THROW(gloo_communicator({}, store, {.deadline = std::chrono::milliseconds(0)}),
               std::invalid_argument);
  EXPECT_THROW(gloo_communicator({}, store, {.host = "no such host, ever"}), std::invalid_argument);
}

}  // namespace
}  // namespace shampoo::test
