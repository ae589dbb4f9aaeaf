// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "registering_processes.h"

namespace shampoo::rendezvous {
namespace {

using namespace std::chrono_literals;
using test::CountingStore;

TEST(RegistrationFaults, DifferentWorldSizeIsAnErrorOnAllRanks) {
  std::vector<Process> processes = world(4);
  processes[2].size = 8;
  CountingStore store;

  const std::vector<RegistrationResult> results = run(store, processes);

  expect_error(results, "has the world size");
  expect_error(results, "rank 2 (host here, process 102)");
}

TEST(RegistrationFaults, WorldSizeOfARankBeyondTheLastIsAnErrorOnAllRanks) {
  std::vector<Process> processes = world(3);
  processes.push_back({.rank = 3, .size = 4});
  processes[1].after = {"result"};  // otherwise the three are a job before the fourth comes
  CountingStore store;

  const std::vector<RegistrationResult> results = run(store, processes);

  expect_error(results, "has the world size 3, rank 3 (host here, process 103) has 4");
}

TEST(RegistrationFaults, RankBeyondTheLastOfACompleteJobIsAloneWithItsError) {
  CountingStore store;
  expect_job(run(store, world(3)));

  const RegistrationResult late = take_part(store, {.rank = 3, .size = 4}, 3, "test");

  EXPECT_NE(late.error.find("has the world size 3"), std::string::npos) << late.error;
}

TEST(RegistrationFaults, DifferentVersionTransportOrBuildIsAnErrorOnAllRanks) {
  CountingStore store;
  std::vector<Process> processes = world(3);
  processes[2].library = "1.1";
  expect_error(run(store, processes, "version"), "has the library version 1.0, rank 2");

  processes = world(3);
  processes[2].transport = "NCCL";
  expect_error(run(store, processes, "transport"), "has the transport Gloo, rank 2");

  processes = world(3);
  processes[2].build = "debug";
  expect_error(run(store, processes, "build"), "has the build \"\", rank 2");
}

TEST(RegistrationFaults, RecordThatCannotBeReadIsOfAnotherVersion) {
  CountingStore store;
  store.set("test/0/terms", "of the next century");

  expect_error(run(store, world(2)), "has the library version 1.0, another rank has a different");
}

TEST(RegistrationFaults, RankTakenTwiceIsAnErrorOnAllRanks) {
  std::vector<Process> processes = world(4);
  processes.push_back({.rank = 2, .size = 4, .after = {"rank/2"}});
  processes[1].after = {"result"};  // the typical case: another rank is missing
  CountingStore store;

  const std::vector<RegistrationResult> results = run(store, processes);

  expect_error(results,
               "two processes are rank 2: rank 2 (host here, process 102) and rank 2 (host here, "
               "process 104)");
}

TEST(RegistrationFaults, RankTakenTwiceAtTheSameTimeIsAnErrorOnAllRanks) {
  for (const int rank : {0, 2}) {
    std::vector<Process> processes = world(3);
    processes.push_back({.rank = rank, .size = 3});
    processes.push_back({.rank = rank, .size = 3});
    processes[1].after = {"result"};
    CountingStore store;

    expect_error(run(store, processes), "two processes are rank " + std::to_string(rank));
  }
}

TEST(RegistrationFaults, SecondProcessOfARankOfACompleteJobIsAloneWithItsError) {
  CountingStore store;
  expect_job(run(store, world(3)));

  const RegistrationResult late = take_part(store, {.rank = 1, .size = 3}, 7, "test");

  EXPECT_NE(late.error.find("two processes are rank 1"), std::string::npos) << late.error;
}

TEST(RegistrationFaults, FailureOfOneRankIsAnErrorOnAllRanks) {
  CountingStore store;
  std::vector<Process> processes = world(4);
  processes[2].failure = "no address of its own";

  expect_error(run(store, processes), "rank 2 (host here, process 102): no address of its own");
}

TEST(RegistrationFaults, ProcessThatLosesItsConnectionAnywhereRegistersAgain) {
  int failures = 0;
  for (int requests = 1; requests < 8; ++requests) {
    SCOPED_TRACE(requests);
    const auto shared = std::make_shared<CountingStore>();
    CountingStore& store = *shared;
    test::ObservedStore failing(shared, [left = requests]() mutable {
      if (left-- == 0) throw CommunicationError("closed the connection");
    });
    std::vector<RegistrationResult> results(3);
    std::vector<std::jthread> others;
    for (const int rank : {0, 2})
      others.emplace_back([&, rank] { results[rank] = take_part(store, {rank, 3}, rank, "test"); });
    try {
      results[1] = take_part(failing, {1, 3}, 1, "test");
    } catch (const CommunicationError&) {
      ++failures;
      results[1] = take_part(store, {1, 3}, 1, "test");
    }
    others.clear();
    expect_job(results);
  }
  EXPECT_GE(failures, 4) << "fewer requests than a registration needs";
}

}  // namespace
}  // namespace shampoo::rendezvous
