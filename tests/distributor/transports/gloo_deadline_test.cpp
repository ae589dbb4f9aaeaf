// SPDX-License-Identifier: Apache-2.0
// Calls over Gloo end within their deadline when a process is stopped: a rank, or the store.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <vector>

#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/gloo_ranks.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds given = 4s;
/// One second is promised; the other one is for a busy host.
constexpr std::chrono::milliseconds longest_wait = given + 2s;

/// A store whose user is stopped at one of its requests.
class StoppingStore final : public Store {
 public:
  explicit StoppingStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override {
    count();
    store_->set(key, value);
  }
  std::optional<std::string> get(std::string_view key) override {
    count();
    return store_->get(key);
  }
  std::int64_t add(std::string_view key, std::int64_t amount) override {
    count();
    return store_->add(key, amount);
  }
  std::string set_if_absent(std::string_view key, std::string_view desired) override {
    count();
    return store_->set_if_absent(key, desired);
  }
  bool remove(std::string_view key) override {
    count();
    return store_->remove(key);
  }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds time) override {
    count();
    return store_->wait(keys, time);
  }
  void set_deadline(std::chrono::milliseconds time) override { store_->set_deadline(time); }
  std::string description() const override { return store_->description(); }

  int countdown = 0;  ///< 0: never

 private:
  void count() {
    if (countdown > 0 && --countdown == 0) raise(SIGSTOP);
  }

  std::unique_ptr<Store> store_;
};

std::unique_ptr<Communicator> connect(int rank, std::shared_ptr<Store> store) {
  return gloo_communicator({.rank = rank, .size = 3, .local_rank = rank}, std::move(store),
                           {.prefix = "test", .deadline = given});
}

/// What the call throws, or how much too long it takes.
std::string timed(const std::function<void()>& call) {
  const auto start = Clock::now();
  std::string text = "no error";
  try {
    call();
  } catch (const CommunicationError& error) {
    text = error.what();
  }
  const auto took = std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - start);
  return took > longest_wait ? "took " + std::to_string(took.count()) + " ms: " + text : text;
}

/// Connects and splits; rank 1 is stopped at a request to the store while it does one of them.
std::vector<Ending> stop_rank_1(int request, bool while_splitting) {
  const StoreProcess server;
  return run_processes(
      3,
      [&](int rank) -> std::string {
        const auto store =
            std::make_shared<StoppingStore>(connect_store("127.0.0.1", server.port(), 10s));
        if (rank == 1 && !while_splitting) store->countdown = request;
        std::unique_ptr<Communicator> ranks, part;
        const std::string connecting = timed([&] { ranks = connect(rank, store); });
        if (!while_splitting || connecting != "no error") return connecting;
        if (rank == 1) store->countdown = request;
        return timed([&] { part = ranks->split(0, rank); });
      },
      40s);
}

void expect_error_in_time(const std::vector<Ending>& endings, int request) {
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(endings[rank].status, 0);
    EXPECT_NE(endings[rank].said, "no error") << "request " << request;
    EXPECT_EQ(endings[rank].said.find("took "), std::string::npos)
        << "request " << request << ": " << endings[rank].said;
  }
}

TEST(GlooDeadline, OfConnectingHoldsWhereverARankStops) {
  for (const int request : {1, 2, 3, 5, 6})
    expect_error_in_time(stop_rank_1(request, false), request);
}

TEST(GlooDeadline, OfSplittingHoldsWhereverARankStops) {
  for (const int request : {1, 2, 3}) expect_error_in_time(stop_rank_1(request, true), request);
}

TEST(GlooDeadline, OfConnectingHoldsWhenTheStoreStops) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) {
        std::shared_ptr<Store> store = connect_store("127.0.0.1", server.port(), 10s);
        if (rank == 0) server.stop();
        return timed([&] { connect(rank, store); });
      },
      40s);
  for (const Ending& ending : endings) {
    EXPECT_NE(ending.said, "no error");
    EXPECT_EQ(ending.said.find("took "), std::string::npos) << ending.said;
  }
}

TEST(GlooDeadline, OfEverythingElseHoldsWhenTheStoreStops) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        auto ranks = connect(rank, connect_store("127.0.0.1", server.port(), 10s));
        auto other = ranks->split(0, rank);
        if (rank == 0) server.stop();
        ranks->barrier().wait();
        require(ranks->failure().empty(), "collectives do not need the store");
        std::string said = timed([&] { ranks->split(0, rank); });
        if (said == "no error") return "a split without the store";
        if (said.find("took ") != std::string::npos) return "split: " + said;
        // Rank 1 does not come: the others miss the deadline, which takes the time of failure
        // detection beside it.
        said = timed([&] {
          if (rank == 1)
            other->abort("enough of it");
          else
            other->barrier().wait();
        });
        if (said.find("took ") != std::string::npos) return "abort: " + said;
        said = timed([&] { other.reset(); });
        if (said != "no error") return "destructor: " + said;
        said = timed([&] { ranks.reset(); });
        return said == "no error" ? "all in time" : "destructor of a failed one: " + said;
      },
      60s);
  for (const Ending& ending : endings) EXPECT_EQ(ending.said, "all in time");
}

TEST(GlooDeadline, OfADestructorHoldsWhenARankIsStopped) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        auto ranks = connect(rank, connect_store("127.0.0.1", server.port(), 10s));
        ranks->barrier().wait();
        if (rank == 1) raise(SIGSTOP);
        return timed([&] { ranks.reset(); });
      },
      30s);
  for (const std::size_t rank : {0, 2}) EXPECT_EQ(endings[rank].said, "no error");
}

}  // namespace
}  // namespace shampoo::test
