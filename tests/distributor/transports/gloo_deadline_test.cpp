// SPDX-License-Identifier: Apache-2.0
// Calls over Gloo end within their deadline when a process is stopped: a rank, or the store.
#include <gtest/gtest.h>

#include <csignal>
#include <functional>
#include <vector>

#include "tests/distributor/observed_store.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/gloo_ranks.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds given = 3s;
/// One second is promised; the other one is for a busy host.
constexpr std::chrono::milliseconds longest_wait = given + 2s;

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

/// A job for each request, in which rank 1 is stopped at that request to the store while it
/// connects or splits.
void stop_rank_1(const std::vector<int>& requests, bool while_splitting) {
  const StoreProcess server;
  const auto run = [&](std::size_t job, int rank) -> std::string {
    int left = 0;  // requests until this process is stopped; 0: it is not
    const auto store =
        std::make_shared<ObservedStore>(connect_store("127.0.0.1", server.port(), 10s), [&] {
          if (left > 0 && --left == 0) raise(SIGSTOP);
        });
    const auto connect = [&](std::chrono::milliseconds deadline) {
      return gloo_communicator({.rank = rank, .size = 3, .local_rank = rank}, store,
                               {.prefix = std::to_string(job), .deadline = deadline});
    };
    const auto begin_to_count = [&] { left = rank == 1 ? requests[job] : 0; };
    if (while_splitting) {
      const auto ranks = connect(20s);
      ranks->set_deadline(given);
      begin_to_count();
      return timed([&] { ranks->split(0, rank); });
    }
    begin_to_count();
    return timed([&] { connect(given); });
  };
  const auto jobs = run_jobs(requests.size(), run, 40s);
  for (std::size_t job = 0; job < jobs.size(); ++job)
    for (const std::size_t rank : {0, 2}) {
      const Ending& ending = jobs[job][rank];
      EXPECT_EQ(ending.status, 0);
      EXPECT_NE(ending.said, "no error") << "request " << requests[job];
      EXPECT_EQ(ending.said.find("took "), std::string::npos)
          << "request " << requests[job] << ": " << ending.said;
    }
}

TEST(GlooDeadline, OfConnectingHoldsWhereverARankStops) { stop_rank_1({1, 2, 3, 5, 6}, false); }

TEST(GlooDeadline, OfSplittingHoldsWhereverARankStops) { stop_rank_1({1, 2, 3}, true); }

TEST(GlooDeadline, OfConnectingHoldsWhenTheStoreStops) {
  const StoreProcess server;
  std::vector<std::shared_ptr<Store>> stores;
  for (int rank = 0; rank < 3; ++rank)
    stores.push_back(connect_store("127.0.0.1", server.port(), 10s));
  server.stop();
  const auto endings = run_processes(
      3,
      [&](int rank) {
        return timed([&] {
          gloo_communicator({.rank = rank, .size = 3}, stores[rank],
                            {.prefix = "test", .deadline = given});
        });
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
        auto ranks = gloo_rank(rank, 3, server);
        auto other = ranks->split(0, rank);
        ranks->barrier().wait();  // all have split, with the store
        if (rank == 0) server.stop();
        ranks->barrier().wait();
        require(ranks->failure().empty(), "collectives do not need the store");
        ranks->set_deadline(given);
        other->set_deadline(given);
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
        auto ranks = gloo_rank(rank, 3, server, given);
        ranks->barrier().wait();
        if (rank == 1) raise(SIGSTOP);
        return timed([&] { ranks.reset(); });
      },
      30s);
  for (const std::size_t rank : {0, 2}) EXPECT_EQ(endings[rank].said, "no error");
}

}  // namespace
}  // namespace shampoo::test
