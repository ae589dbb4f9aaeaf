// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>
#include <vector>

#include "agreement_processes.h"
#include "distributor/rendezvous/registration.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;

TEST(Agreement, OneRankAgreesWithItself) {
  SharedKeys keys;

  expect_agreement(run(keys, world(1)));
}

TEST(Agreement, RanksThatComeInAnyOrderGetTheSameNewGeneration) {
  std::mt19937 random(7);
  SharedKeys keys;
  std::set<std::string> generations;
  for (int round = 0; round < 12; ++round) {
    std::vector<Process> processes = world(1 + round % 5);
    for (Process& process : processes) process.delay = milliseconds(random() % 60);

    const std::vector<Outcome> outcomes = run(keys, processes);

    expect_agreement(outcomes);
    EXPECT_TRUE(generations.insert(outcomes[0].generation).second);
  }
}

TEST(Agreement, HundredRanksDoNotPollHard) {
  constexpr int ranks = 100;
  std::vector<Process> processes = world(ranks);
  processes[0].delay = 700ms;
  SharedKeys keys;

  const std::vector<Outcome> outcomes = run(keys, processes);

  expect_agreement(outcomes);
  EXPECT_LT(keys.requests, 100 * ranks);
}

TEST(Agreement, LateRankIsWaitedFor) {
  std::vector<Process> processes = world(4);
  processes[2].delay = 1500ms;
  SharedKeys keys;

  expect_agreement(run(keys, processes));
}

TEST(Agreement, LateRankZeroIsWaitedFor) {
  std::vector<Process> processes = world(4);
  processes[0].delay = 1500ms;
  SharedKeys keys;

  expect_agreement(run(keys, processes));
}

TEST(Agreement, MissingRanksAreNamedEverywhere) {
  std::vector<Process> processes = world(5);
  for (Process& process : processes) process.deadline = 1500ms;
  processes.erase(processes.begin() + 3);
  processes.erase(processes.begin() + 1);
  SharedKeys keys;

  const std::vector<Outcome> outcomes = run(keys, processes);

  expect_refusal(outcomes, "ranks 1 and 3 did not come");
  expect_refusal(outcomes, "in memory");
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.missing, (std::vector<int>{1, 3}));
}

TEST(Agreement, StoreAndDeadlineAreNamedAsTheyAreKnown) {
  SharedKeys keys;
  MemoryStore store(keys);
  try {
    // Most of the deadline passed before there was a store.
    agree(store, {.rank = 0, .size = 2},
          {.job = "test",
           .deadline = 20s,
           .begin = std::chrono::steady_clock::now() - 19'900ms,
           .place = "node7:29500"});
    FAIL() << "agreed alone";
  } catch (const CommunicationError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("did not come within 20 s to the store node7:29500"), std::string::npos)
        << text;
  }
}

TEST(Agreement, MissingRankZeroIsNamed) {
  std::vector<Process> processes = world(3);
  for (Process& process : processes) process.deadline = 1500ms;
  processes.erase(processes.begin());
  SharedKeys keys;

  const std::vector<Outcome> outcomes = run(keys, processes);

  expect_refusal(outcomes, "rank 0 did not come");
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome.missing, std::vector<int>{0});
}

TEST(Agreement, KeysOfEarlierAttemptsCountForNothing) {
  SharedKeys keys;
  expect_agreement(run(keys, world(4)));

  // Everything of the attempt before is there; rank 2 is not.
  std::vector<Process> processes = world(4);
  processes.erase(processes.begin() + 2);
  for (Process& process : processes) process.deadline = 1500ms;

  expect_refusal(run(keys, processes), "rank 2 did not come");
  expect_agreement(run(keys, world(4)));
}

TEST(Agreement, EarlierAttemptMayHaveHadAnotherSize) {
  SharedKeys keys;
  expect_agreement(run(keys, world(5)));

  std::vector<Process> fewer = world(3);
  fewer[0].delay = 600ms;
  expect_agreement(run(keys, fewer));

  std::vector<Process> more = world(6);
  more[0].delay = 600ms;
  expect_agreement(run(keys, more));
}

TEST(Agreement, RefusalOfAnEarlierAttemptIsNotHeardAgain) {
  SharedKeys keys;
  std::vector<Process> processes = world(3);
  processes[1].library = "0.9";
  expect_refusal(run(keys, processes), "library version");

  std::vector<Process> late = world(3);
  late[0].delay = 500ms;
  expect_agreement(run(keys, late));
}

TEST(Agreement, TwoJobsAtOneStoreDoNotMeet) {
  SharedKeys keys;
  std::vector<std::string> generations(4);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      MemoryStore store(keys);
      const std::string job = i / 2 == 0 ? "one" : "two";
      generations[i] = agree(store, {.rank = i % 2, .size = 2}, {.job = job, .deadline = 20s});
    });
  }
  threads.clear();

  EXPECT_EQ(generations[0], generations[1]);
  EXPECT_EQ(generations[2], generations[3]);
  EXPECT_NE(generations[0], generations[2]);
}

TEST(Agreement, SameProcessesAgreeManyTimesWithoutMixing) {
  constexpr int ranks = 3, rounds = 30;
  SharedKeys keys;
  std::vector<std::vector<std::string>> generations(ranks);
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      MemoryStore store(keys);
      for (int round = 0; round < rounds; ++round) {
        generations[rank].push_back(
            agree(store, {.rank = rank, .size = ranks}, {.job = "test", .deadline = 20s}));
      }
    });
  }
  threads.clear();

  EXPECT_EQ(generations[1], generations[0]);
  EXPECT_EQ(generations[2], generations[0]);
  EXPECT_EQ(std::set<std::string>(generations[0].begin(), generations[0].end()).size(), rounds);
}

}  // namespace
}  // namespace shampoo::joining
