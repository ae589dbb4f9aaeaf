// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <thread>
#include <vector>

#include "distributor/store/store_server.h"
#include "tests/distributor/transports/conformance.h"
#include "tests/distributor/transports/gloo_ranks.h"
#include "tests/distributor/transports/transport_processes.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

/// Gathers until an error and returns its text; rank 1 calls fault(communicator) on the way.
std::string gather_until(Communicator& ranks, const std::function<void(Communicator&)>& fault) {
  std::vector<char> data(static_cast<std::size_t>(ranks.size()));
  const std::vector<std::int64_t> counts(data.size(), 1);
  try {
    for (int i = 0; i < 1'000'000; ++i) {
      if (i == 100 && ranks.rank() == 1) fault(ranks);
      ranks.all_gather(data.data(), counts).wait();
    }
  } catch (const CommunicationError& error) {
    std::string again;
    try {
      (void)ranks.barrier();
    } catch (const CommunicationError& second) {
      again = second.what();
    }
    require(again == error.what(), "the failure is not remembered");
    return story(error);
  }
  return "nothing is wrong";
}

using Fault = std::function<void(Communicator&)>;

/// A job for each fault of rank 1. A failed rank waits a quarter of the deadline for the others,
/// which must have the time to run.
std::vector<std::vector<Ending>> suffer(const std::vector<Fault>& faults,
                                        std::chrono::milliseconds deadline = 12s) {
  const StoreProcess server;
  return run_jobs(
      faults.size(),
      [&](std::size_t job, int rank) {
        const auto ranks = gloo_rank(rank, 3, server, 30s, job);
        ranks->set_deadline(deadline);
        return gather_until(*ranks, faults[job]);
      },
      50s);
}

void expect_missing_1(const std::vector<Ending>& endings) {
  for (const std::size_t rank : {0, 2}) {
    EXPECT_EQ(endings[rank].status, 0) << endings[rank].said;
    EXPECT_EQ(endings[rank].said.substr(0, 10), "missing 1;") << endings[rank].said;
    EXPECT_NE(endings[rank].said.find("rank 1 did not answer"), std::string::npos)
        << endings[rank].said;
  }
}

TEST(AGlooRankThatIsKilledExitsOrThrows, IsNamedByTheOthers) {
  const auto jobs = suffer({[](Communicator&) { raise(SIGKILL); }, [](Communicator&) { _exit(3); },
                            [](Communicator&) { throw std::runtime_error("mine alone"); }});
  EXPECT_EQ(jobs[0][1].status, -1 - SIGKILL);
  EXPECT_EQ(jobs[1][1].status, 3);
  EXPECT_EQ(jobs[2][1].said, "mine alone");
  for (const auto& endings : jobs) expect_missing_1(endings);
}

TEST(AGlooRankThatIsStopped, IsNamedByTheOthersAfterTheDeadline) {
  expect_missing_1(suffer({[](Communicator&) { raise(SIGSTOP); }}, 6s).front());
}

TEST(AGlooRankThatAborts, TellsTheOthersWhy) {
  const auto endings = suffer({[](Communicator& ranks) { ranks.abort("enough of it"); }}).front();
  EXPECT_NE(endings[1].said.find("aborted: enough of it"), std::string::npos) << endings[1].said;
  for (const std::size_t rank : {0, 2}) {
    EXPECT_NE(endings[rank].said.find("rank 1 aborted: enough of it"), std::string::npos)
        << endings[rank].said;
  }
}

TEST(AGlooRankThatAborts, DoesSoFromAnotherThreadWhileItWaits) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        const auto ranks = gloo_rank(rank, 3, server);  // with a deadline of half a minute
        if (rank == 2) {
          // Comes to the collective only when it has been ended.
          const auto store = connect_store("127.0.0.1", server.port(), 10s);
          require(store->wait(std::vector<std::string>{"job0/abort"}, 10s), "no abort was heard");
        }
        std::jthread other;
        if (rank == 1)
          other = std::jthread([&] {
            std::this_thread::sleep_for(100ms);  // likely to wait by now, and right if not
            ranks->abort("from outside");
          });
        return gather_until(*ranks, [](Communicator&) {});
      },
      50s);
  for (const Ending& ending : endings)
    EXPECT_NE(ending.said.find("aborted: from outside"), std::string::npos) << ending.said;
}

TEST(AGlooRankThatFails, EndsCollectivesWhoseConnectionsDoNotSaySo) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        const auto ranks = gloo_rank(rank, 3, server);
        ranks->set_deadline(12s);
        const auto store = connect_store("127.0.0.1", server.port(), 10s);
        if (rank == 1) {
          store->set("job0/abort", "rank 1 failed: of its own");
          // Its connections stay.
          return store->wait(std::vector<std::string>{"0 ended", "2 ended"}, 30s) ? "" : "too late";
        }
        const std::string said = gather_until(*ranks, [](Communicator&) {});
        store->set(std::to_string(rank) + " ended", "");
        return said;
      },
      50s);
  EXPECT_EQ(endings[1].said, "");
  for (const std::size_t rank : {0, 2})
    EXPECT_NE(endings[rank].said.find("rank 1 failed: of its own"), std::string::npos)
        << endings[rank].said;
}

TEST(AGlooRankThatNeverComes, IsNamedByTheOthers) {
  const StoreProcess server;
  const auto endings = run_processes(
      3,
      [&](int rank) -> std::string {
        if (rank == 1) return "not me";
        try {
          gloo_rank(rank, 3, server, 5s);
        } catch (const CommunicationError& error) {
          return story(error);
        }
        return "nothing is wrong";
      },
      50s);
  for (const std::size_t rank : {0, 2})
    EXPECT_EQ(endings[rank].said, "missing 1; rank 1 did not come within 5 s");
}

TEST(AGlooRankThatIsKilled, TakesTheStoreAlongAndThatIsSaid) {
  std::array<int, 2> ports{};
  ASSERT_EQ(pipe(ports.data()), 0);
  const auto endings = run_processes(
      3,
      [&](int rank) {
        // Rank 1 serves the store, as its first rank does for a job without a launcher.
        std::unique_ptr<StoreServer> server;
        std::uint16_t port = 0;
        if (rank == 1) {
          server = std::make_unique<StoreServer>();
          port = server->port();
          for (int reader = 0; reader < 2; ++reader)
            require(write(ports[1], &port, sizeof(port)) == sizeof(port), "write");
        } else {
          require(read(ports[0], &port, sizeof(port)) == sizeof(port), "read");
        }
        const auto ranks = gloo_communicator({.rank = rank, .size = 3, .local_rank = rank},
                                             connect_store("127.0.0.1", port, 10s),
                                             {.deadline = 10s, .store_server = "rank 1"});
        return gather_until(*ranks, [](Communicator&) { raise(SIGKILL); });
      },
      50s);
  close(ports[0]);
  close(ports[1]);
  for (const std::size_t rank : {0, 2})
    EXPECT_NE(endings[rank].said.find("nor does the store respond, whose process, rank 1, may"),
              std::string::npos)
        << endings[rank].said;
}

}  // namespace
}  // namespace shampoo::test
