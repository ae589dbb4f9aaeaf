// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "counting_store.h"
#include "distributor/communicator.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/serialization.h"

namespace shampoo::rendezvous {

using std::chrono::milliseconds;

/// One process that registers.
struct Process {
  int rank = 0, size = 1;
  milliseconds delay = milliseconds(0);
  std::vector<std::string> after = {};  ///< keys that exist before it starts, below the prefix
  milliseconds deadline = milliseconds(20'000);
  int restarts = 0;
  ProcessIdentity identity = {};  ///< 100 + its number, on an unknown machine, unless set
  std::string library = "1.0", transport = "Gloo", build = {}, failure = {};
};

/// "100,101," for the processes of a job of two ranks.
inline std::string numbers_of(const std::vector<ProcessInfo>& processes) {
  std::string text;
  for (const ProcessInfo& process : processes) text += std::to_string(process.identity.id) + ",";
  return text;
}

/// As process number 100 + `number`, in its first call.
inline RegistrationResult take_part(Store& store, const Process& process, std::int64_t number,
                                    const std::string& prefix, std::uint64_t call = 1) {
  std::vector<std::string> keys;
  for (const std::string& key : process.after) keys.push_back(prefix + "/0/" + key);
  EXPECT_TRUE(store.wait(keys, std::chrono::seconds(20)));
  std::this_thread::sleep_for(process.delay);
  ProcessIdentity identity = process.identity;
  if (identity.id == 0) identity.id = 100 + number;
  return register_rank(store,
                       {.library = process.library,
                        .rank = process.rank,
                        .size = process.size,
                        .transport = process.transport,
                        .build = process.build,
                        .process = {.host = "here",
                                    .identity = identity,
                                    .restarts = process.restarts,
                                    .call = call}},
                       {.prefix = prefix,
                        .failure = process.failure,
                        .summarize = numbers_of,
                        .end = std::chrono::steady_clock::now() + process.deadline});
}

inline std::vector<RegistrationResult> run(Store& store, const std::vector<Process>& processes,
                                           const std::string& prefix = "test",
                                           std::uint64_t call = 1) {
  std::vector<RegistrationResult> results(processes.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < processes.size(); ++i)
    threads.emplace_back([&, i] {
      results[i] = take_part(store, processes[i], static_cast<std::int64_t>(i), prefix, call);
    });
  threads.clear();
  return results;
}

inline std::vector<Process> world(int size) {
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank) processes.push_back({.rank = rank, .size = size});
  return processes;
}

/// With these counts of restarts.
inline std::vector<Process> restarted(std::vector<Process> processes,
                                      const std::vector<int>& restarts) {
  for (std::size_t i = 0; i < processes.size(); ++i) processes[i].restarts = restarts[i];
  return processes;
}

/// A process that was on this machine: its number is another one's now.
inline ProcessInfo ended_process(int rank) {
  ProcessIdentity identity = this_process();
  ++identity.start;
  return {.host = "here", .identity = identity, .call = 1 + static_cast<std::uint64_t>(rank)};
}

/// The keys of an attempt in which these ranks registered, and all processes have ended.
inline void leave_attempt(Store& store, const std::vector<int>& ranks, int size) {
  StoreGather gather(store, "test/0", size);
  for (const int rank : ranks) {
    Registration terms{.library = "1.0",
                       .rank = rank,
                       .size = size,
                       .transport = "Gloo",
                       .process = ended_process(rank)};
    gather.claim(rank, serialize(terms.process));
    store.set_if_absent("test/0/terms", serialize(terms));
    gather.arrive();
  }
}

/// For processes in the order of their ranks.
inline void expect_job(const std::vector<RegistrationResult>& results) {
  for (std::size_t i = 0; i < results.size(); ++i) {
    EXPECT_EQ(results[i].error, "") << "process " << i;
    EXPECT_EQ(results[i].missing_ranks, std::vector<int>{}) << "process " << i;
    EXPECT_EQ(results[i].prefix, results[0].prefix) << "process " << i;
    std::vector<ProcessInfo> all(results.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      all[rank].identity.id = 100 + static_cast<std::int64_t>(rank);
    EXPECT_EQ(results[i].summary, numbers_of(all)) << "process " << i;
  }
}

inline void expect_error(const std::vector<RegistrationResult>& results,
                         const std::string& reason) {
  for (std::size_t i = 0; i < results.size(); ++i)
    EXPECT_NE(results[i].error.find(reason), std::string::npos)
        << "process " << i << ": " << results[i].error;
}

}  // namespace shampoo::rendezvous
