// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/failure_registry.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "counting_store.h"
#include "distributor/system/failure_timeout.h"
#include "tests/support/thrown.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

TEST(FailureDetectionTimeout, IsAQuarterFromOneToTenSeconds) {
  EXPECT_EQ(failure_detection_timeout(20s), 5s);
  EXPECT_EQ(failure_detection_timeout(10min), 10s);
  EXPECT_EQ(failure_detection_timeout(2s), 1s);
  EXPECT_EQ(failure_detection_timeout(300ms), 300ms);
}

TEST(SynchronizedStore, ServesOtherThreadsWhileOneWaitsAgainAndAgain) {
  SynchronizedStore store(std::make_shared<MemoryStore>());
  const std::vector<std::string> keys{"done"};
  int slices = 0;
  const std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    store.within(20s, [](Store& inner) { inner.set("done", ""); });
  });

  const auto wait = [&](Store& inner) { return inner.wait(keys, 20ms); };
  while (!store.within(20s, wait) && slices < 100) ++slices;

  EXPECT_LT(slices, 100);
}

FailureRegistry registry(const std::shared_ptr<SynchronizedStore>& store, int rank,
                         const char* server = "") {
  return {store, "test", server, rank, 2};
}

FailureRegistry registry_of(const std::shared_ptr<CountingStore>& keys, int rank, int size) {
  return {std::make_shared<SynchronizedStore>(keys), "test", "", rank, size};
}

TEST(FailureRegistry, BarrierWaitsForAllRanksAndLeavesNoKeys) {
  constexpr int ranks = 5;
  const auto keys = std::make_shared<CountingStore>();
  std::atomic<int> arrived = 0;
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        registry_of(keys, rank, ranks).barrier(20s);
        ++arrived;
      });
  }

  EXPECT_EQ(arrived, ranks);
  EXPECT_EQ(keys->size(), 0U);
}

TEST(FailureRegistry, BarrierNamesTheRanksThatDoNotArrive) {
  const auto keys = std::make_shared<CountingStore>();
  std::vector<std::jthread> threads;
  for (const int rank : {0, 2})
    threads.emplace_back([&, rank] {
      const std::string text =
          error_of<CommunicationError>([&] { registry_of(keys, rank, 4).barrier(300ms); });
      EXPECT_EQ(text, "ranks 1 and 3 did not come within 0.3 s");
    });
}

/// Requests of all of so many ranks, of which rank 1 reports nothing.
std::int64_t requests_of_diagnosis(int ranks) {
  const auto keys = std::make_shared<CountingStore>();
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != 1)
      threads.emplace_back([&, rank] {
        const CommunicationError error = registry_of(keys, rank, ranks).diagnose("silence", 300ms);
        EXPECT_EQ(error.missing_ranks(), std::vector<int>{1}) << error.what();
      });
  threads.clear();
  return keys->requests;
}

TEST(FailureRegistry, DiagnosisTakesRequestsInProportionToTheRanks) {
  EXPECT_LT(requests_of_diagnosis(60), 60 * 20);
}

TEST(FailureRegistry, GivesTheReasonOfARankThatAborts) {
  const auto keys = std::make_shared<CountingStore>();
  EXPECT_EQ(registry_of(keys, 0, 3).remote_abort_reason(), "");
  registry_of(keys, 1, 3).publish_abort("enough", 20s);

  EXPECT_EQ(registry_of(keys, 0, 3).remote_abort_reason(), "rank 1 aborted: enough");
  EXPECT_STREQ(registry_of(keys, 2, 3).diagnose("closed", 20s).what(), "rank 1 aborted: enough");
}

TEST(FailureRegistry, WaitsForARankThatReportsLate) {
  const auto keys = std::make_shared<CountingStore>();
  const std::vector<std::string> reported{"test/failures/rank/0"};
  const std::jthread late([&] {
    EXPECT_TRUE(keys->wait(reported, 20s));
    registry_of(keys, 1, 2).diagnose("late", 20s);
  });

  const CommunicationError error = registry_of(keys, 0, 2).diagnose("early", 20s);

  EXPECT_TRUE(error.missing_ranks().empty()) << error.what();
  EXPECT_STREQ(error.what(), "early; all ranks answer");
}

TEST(FailureRegistry, NamesTheRankThatDoesNotReport) {
  const auto store = std::make_shared<SynchronizedStore>(std::make_shared<MemoryStore>());

  const CommunicationError error = registry(store, 0).diagnose("silence", 200ms);

  EXPECT_EQ(error.missing_ranks(), std::vector<int>{1});
}

/// Remembers the deadline of requests, and answers none.
class DeadStore final : public ObservedStore {
 public:
  DeadStore()
      : ObservedStore(nullptr, [this] {
          when_asked = now;
          throw CommunicationError("closed the connection");
        }) {}
  void set_deadline(std::chrono::milliseconds deadline) override { now = deadline; }

  std::chrono::milliseconds now{0}, when_asked{0};
};

TEST(FailureRegistry, AsksWithinTheTimeOfFailureDetection) {
  const auto dead = std::make_shared<DeadStore>();
  const auto store = std::make_shared<SynchronizedStore>(dead);
  const auto expect_asked_within = [&](std::chrono::milliseconds least, auto most) {
    EXPECT_GE(dead->when_asked, least);
    EXPECT_LE(std::exchange(dead->when_asked, 0s), most);
  };
  registry(store, 0).publish_abort("enough", 20s);
  expect_asked_within(251ms, 5s);
  registry(store, 0).diagnose("a fault", 20s);
  expect_asked_within(251ms, 5s);
  registry(store, 0).diagnose("a fault", 100ms);
  expect_asked_within(250ms, 250ms);
}

TEST(FailureRegistry, NamesTheServerOfAStoreThatIsGone) {
  const auto store = std::make_shared<SynchronizedStore>(std::make_shared<DeadStore>());

  const std::string known = registry(store, 1, "rank 0 of the job").diagnose("a fault", 1s).what();
  const std::string unknown = registry(store, 1).diagnose("a fault", 1s).what();

  EXPECT_EQ(known,
            "a fault; nor does the store respond, whose process, rank 0 of the job, may be gone: "
            "closed the connection");
  EXPECT_EQ(
      unknown,
      "a fault; nor does the store respond, whose process may be gone: closed the connection");
}

}  // namespace
}  // namespace shampoo::test
