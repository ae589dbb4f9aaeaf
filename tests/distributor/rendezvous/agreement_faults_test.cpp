// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "agreement_processes.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/rendezvous/rendezvous_keys.h"

namespace shampoo::joining {
namespace {

using namespace std::chrono_literals;

const AgreementKeys test_keys("test");

TEST(AgreementFaults, WrongWorldSizeOfALowRankIsRefusedOnAllRanks) {
  std::vector<Process> processes = world(4);
  processes[2].size = 8;
  SharedKeys keys;

  const std::vector<Outcome> outcomes = run(keys, processes);

  expect_refusal(outcomes, "world size 4");
  expect_refusal(outcomes, "world size");
  expect_refusal(outcomes, "process 102");
}

TEST(AgreementFaults, WrongWorldSizeOfARankBeyondTheLastIsRefusedOnAllRanks) {
  std::vector<Process> processes = world(3);
  processes.push_back({.rank = 3, .size = 4});
  // Otherwise the three agree before the fourth can object.
  processes[1].after = there("/objection/");
  SharedKeys keys;

  expect_refusal(run(keys, processes), "world size 3");
}

TEST(AgreementFaults, OtherVersionOrBuildIsRefusedOnAllRanks) {
  SharedKeys keys;
  std::vector<Process> processes = world(3);
  processes[2].library = "1.1";
  expect_refusal(run(keys, processes), "library version 1.0");

  processes = world(3);
  processes[1].build = "debug";
  expect_refusal(run(keys, processes), "build");
}

TEST(AgreementFaults, RankTakenTwiceIsRefusedOnAllRanks) {
  std::vector<Process> processes = world(4);
  processes.push_back({.rank = 2, .size = 4, .after = answered(2, 1)});
  processes[1].after = answered(2, 2);
  SharedKeys keys;

  expect_refusal(run(keys, processes), "two processes are rank 2");
}

TEST(AgreementFaults, RankTakenTwiceAtTheSameTimeIsRefusedOnAllRanks) {
  std::vector<Process> processes = world(3);
  processes.push_back({.rank = 2, .size = 3});
  processes.push_back({.rank = 2, .size = 3});
  processes[0].delay = 50ms;
  processes[1].after = answered(2, 3);
  SharedKeys keys;

  expect_refusal(run(keys, processes), "two processes are rank 2");
}

TEST(AgreementFaults, RankZeroTakenTwiceIsRefusedOnAllRanks) {
  std::vector<Process> processes = world(3);
  processes.push_back({.rank = 0, .size = 3, .after = there("/call")});
  // Each of the two has asked the other, or has refused already.
  processes[1].after = [](const SharedKeys::Values& values) {
    return answers_of(0, values) >= 2 || there("/told/")(values);
  };
  SharedKeys keys;

  expect_refusal(run(keys, processes), "two processes are rank 0");
}

/// A store whose process dies with the n-th request.
class Dying : public MemoryStore {
 public:
  struct Death {};
  Dying(SharedKeys& keys, int requests) : MemoryStore(keys), left_(requests) {}

  void set(std::string_view key, std::string_view value) override {
    live();
    MemoryStore::set(key, value);
  }
  std::optional<std::string> get(std::string_view key) override {
    live();
    return MemoryStore::get(key);
  }
  bool wait(std::span<const std::string> keys, std::chrono::milliseconds longest) override {
    live();
    return MemoryStore::wait(keys, longest);
  }

 private:
  void live() {
    if (left_-- == 0) throw Death();
  }
  int left_;
};

TEST(AgreementFaults, RankThatDiesAnywhereAndComesAgainIsTakenIn) {
  for (int requests = 0; requests < 10; ++requests) {
    SCOPED_TRACE(requests);
    SharedKeys keys;
    const std::jthread first([&] {
      Dying store(keys, requests);
      EXPECT_ANY_THROW(agree(store, {.rank = 1, .size = 3, .library = "1.0"}, {.job = "test"}))
          << "more requests than an agreement needs";
    });
    std::vector<Process> processes = world(3);
    processes[1].delay = 100ms;
    // Nobody can agree before the second rank 1 is there.
    processes[2].after = said_hello(1, 101);

    expect_agreement(run(keys, processes));
  }
}

TEST(AgreementFaults, RankZeroThatDiesAnywhereAndComesAgainIsFollowed) {
  for (int requests = 0; requests < 24; requests += 3) {
    SCOPED_TRACE(requests);
    SharedKeys keys;
    const std::jthread first([&] {
      Dying store(keys, requests);
      EXPECT_ANY_THROW(agree(store, {.rank = 0, .size = 3, .library = "1.0"}, {.job = "test"}));
    });
    std::vector<Process> processes = world(3);
    processes[0].delay = 120ms;
    processes[2].after = said_hello(0, 100);

    expect_agreement(run(keys, processes));
  }
}

TEST(AgreementFaults, FaultOfOneRankIsToldToAll) {
  std::vector<Process> processes = world(4);
  processes[2].fault = "no address of its own";
  SharedKeys keys;

  expect_refusal(run(keys, processes), "rank 2 (host here, process 102): no address of its own");

  processes = world(3);
  processes[0].fault = "cannot serve";
  expect_refusal(run(keys, processes), "rank 0 (host here, process 100): cannot serve");
}

/// A store that closes the connection with the n-th request.
class Closing : public MemoryStore {
 public:
  Closing(SharedKeys& keys, int requests) : MemoryStore(keys), left_(requests) {}

  std::optional<std::string> get(std::string_view key) override {
    if (left_-- == 0) throw CommunicationError("closed the connection");
    return MemoryStore::get(key);
  }

 private:
  int left_;
};

TEST(AgreementFaults, StoreThatClosesBeforeRankZeroHasAskedIsLost) {
  for (int requests = 0; requests < 4; ++requests) {
    SCOPED_TRACE(requests);
    SharedKeys keys;
    Closing store(keys, requests);
    EXPECT_THROW(agree(store, {.rank = 1, .size = 2}, {.job = "test"}), StoreLost);
  }
}

TEST(AgreementFaults, StoreThatClosesLaterIsAnError) {
  SharedKeys keys;
  const std::jthread rank_0([&] {
    MemoryStore store(keys);
    EXPECT_THROW(agree(store, {.rank = 0, .size = 3}, {.job = "test", .deadline = 1s}),
                 CommunicationError);
  });
  keys.wait_until(there("/call"));
  // Ten requests: more than it takes to be asked, fewer than the refusal needs.
  Closing store(keys, 10);
  try {
    agree(store, {.rank = 1, .size = 3}, {.job = "test"});
    FAIL() << "agreed with two of three";
  } catch (const CommunicationError& error) {
    EXPECT_EQ(dynamic_cast<const StoreLost*>(&error), nullptr) << error.what();
  }
}

TEST(AgreementFaults, GarbageOfAForeignWriterDoesNotDisturb) {
  SharedKeys keys;
  std::jthread foreigner([&](const std::stop_token& stop) {
    MemoryStore store(keys);
    std::mt19937 random(3);
    while (!stop.stop_requested()) {
      const std::string garbage(random() % 50, static_cast<char>(random() % 256));
      store.set(test_keys.hello(static_cast<int>(random() % 6)), garbage);
      store.set(test_keys.bell(), garbage);
      store.set(test_keys.call(), garbage);
      const std::string call = store.get(test_keys.call()).value_or("");
      store.set(test_keys.objection(call.substr(0, 32)), garbage);
      std::this_thread::sleep_for(milliseconds(random() % 40));
    }
  });
  std::vector<Process> processes = world(4);
  processes[3].delay = 400ms;

  expect_agreement(run(keys, processes));
}

}  // namespace
}  // namespace shampoo::joining
