// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/registration.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "distributor/serialization.h"
#include "registering_processes.h"

namespace shampoo::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::CountingStore;

TEST(Registration, OneRankIsAJob) {
  CountingStore store;

  expect_job(run(store, world(1)));
}

TEST(Registration, RanksThatComeInAnyOrderKnowAllProcesses) {
  std::mt19937 random(7);
  CountingStore store;
  for (int restarts = 0; restarts < 12; ++restarts) {
    std::vector<Process> processes = world(1 + restarts % 5);
    for (Process& process : processes) process.delay = milliseconds(random() % 30);

    expect_job(run(store, processes, "job/" + std::to_string(restarts)));
  }
}

TEST(Registration, TakesRequestsInProportionToTheRanks) {
  constexpr int ranks = 100;
  std::vector<Process> processes = world(ranks);
  processes[0].delay = 300ms;
  CountingStore store;

  expect_job(run(store, processes));

  EXPECT_LE(store.requests, 8 * ranks);
}

TEST(Registration, MissingRanksAreNamedEverywhere) {
  for (const bool is_rank_0_missing : {false, true}) {
    std::vector<Process> processes = world(5);
    for (Process& process : processes) process.deadline = 300ms;
    processes.erase(processes.begin() + 3);
    processes.erase(processes.begin() + (is_rank_0_missing ? 0 : 1));
    CountingStore store;

    for (const RegistrationResult& result : run(store, processes)) {
      EXPECT_EQ(result.missing_ranks, (std::vector<int>{is_rank_0_missing ? 0 : 1, 3}));
      EXPECT_EQ(result.error, "");
    }
  }
}

TEST(Registration, LateRankHearsWhoWasMissing) {
  CountingStore store;
  std::vector<Process> processes = world(3);
  processes[0].deadline = processes[1].deadline = 200ms;
  processes[2].after = {"result"};

  for (const RegistrationResult& result : run(store, processes))
    EXPECT_EQ(result.missing_ranks, std::vector<int>{2});
}

TEST(Registration, RestartIgnoresTheKeysOfADeadAttempt) {
  CountingStore store;
  std::vector<Process> dead = world(4);
  for (Process& process : dead) process.deadline = 200ms;
  dead.erase(dead.begin() + 2);
  run(store, dead);

  expect_job(run(store, restarted(world(4), {1, 1, 1, 1})));
  expect_job(run(store, restarted(world(3), {2, 2, 2})));
}

TEST(Registration, RestartIgnoresProcessesThatHaveEnded) {
  for (const std::vector<int>& ranks : {std::vector{0, 1, 3}, {2}, {0, 1, 2, 3}})
    for (const std::vector<int>& restarts : {std::vector{0, 0, 0, 0}, {1, 1, 0, 0}, {0, 0, 0, 1}}) {
      CountingStore store;
      leave_attempt(store, ranks, 4);

      const std::vector<RegistrationResult> results = run(store, restarted(world(4), restarts));

      expect_job(results);
      EXPECT_EQ(results[0].prefix, "test/1");
    }
}

TEST(Registration, RanksThatWaitGoOnWithTheNextAttempt) {
  CountingStore store;
  store.set("test/0/rank/1", serialize(ended_process(1)));
  std::vector<Process> processes = world(3);
  processes[1].after = {"terms", "rank/0", "rank/2"};

  const std::vector<RegistrationResult> results = run(store, processes);

  expect_job(results);
  EXPECT_EQ(results[0].prefix, "test/1");
}

TEST(Registration, LateRankHearsOfAnErrorOfProcessesThatHaveEnded) {
  CountingStore store;
  leave_attempt(store, {0, 1}, 3);
  StoreGather(store, "test/0", 3).publish({.error = "no address of its own"});

  EXPECT_EQ(take_part(store, {.rank = 2, .size = 3}, 2, "test").error, "no address of its own");
}

TEST(Registration, EndsAtTheDeadlineWhereEveryAttemptSeemsToBeOver) {
  CountingStore store;
  Process process{.rank = 0, .size = 2, .deadline = 200ms};
  process.identity = ended_process(0).identity;

  EXPECT_EQ(take_part(store, process, 0, "test").missing_ranks, std::vector<int>{1});
}

TEST(Registration, TwoJobsAtOneStoreDoNotMix) {
  CountingStore store;
  std::vector<RegistrationResult> one, two;
  {
    const std::jthread first([&] { one = run(store, world(2), "one"); });
    const std::jthread second([&] { two = run(store, world(3), "two"); });
  }

  expect_job(one);
  expect_job(two);
  EXPECT_NE(one[0].prefix, two[0].prefix);
}

TEST(Registration, SameProcessesRegisterManyTimesWithoutMixing) {
  constexpr int ranks = 3, rounds = 20;
  CountingStore store;
  std::vector<std::vector<std::string>> prefixes(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      for (int round = 0; round < rounds; ++round)
        prefixes[rank].push_back(take_part(store, {.rank = rank, .size = ranks}, rank, "test",
                                           static_cast<std::uint64_t>(round))
                                     .prefix);
    });
  threads.clear();

  EXPECT_EQ(prefixes[1], prefixes[0]);
  EXPECT_EQ(prefixes[2], prefixes[0]);
  EXPECT_EQ(std::set<std::string>(prefixes[0].begin(), prefixes[0].end()).size(), rounds);
}

TEST(Registration, SameProcessesMayTryAgainWithOtherOptions) {
  CountingStore store;
  std::vector<Process> processes = world(3);
  processes[1].build = "debug";
  expect_error(run(store, processes), "has the build");

  expect_job(run(store, world(3), "test", 2));
}

}  // namespace
}  // namespace shampoo::rendezvous
