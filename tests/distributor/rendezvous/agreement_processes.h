// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "distributor/error.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/rendezvous/rendezvous_keys.h"
#include "memory_store.h"

namespace shampoo::joining {

using std::chrono::milliseconds;

/// What became of one process.
struct Outcome {
  std::string generation = {};
  std::string error = {};
  std::vector<int> missing = {};
};

/// One process that joins.
struct Process {
  int rank = 0, size = 1;
  milliseconds delay = milliseconds(0);
  std::function<bool(const SharedKeys::Values&)> after = {};  ///< what it comes after, if set
  milliseconds deadline = milliseconds(20'000);
  std::string library = "1.0", build = {}, fault = {};
};

inline Outcome take_part(Store& store, const Process& process, std::int64_t id) {
  std::this_thread::sleep_for(process.delay);
  const Hello hello{.rank = process.rank,
                    .size = process.size,
                    .library = process.library,
                    .build = process.build,
                    .host = "here",
                    .process = id,
                    .fault = process.fault};
  try {
    return {.generation = agree(store, hello, {.job = "test", .deadline = process.deadline})};
  } catch (const CommunicationError& error) {
    return {.error = error.what(), .missing = error.missing_ranks()};
  }
}

inline std::vector<Outcome> run(SharedKeys& keys, const std::vector<Process>& processes) {
  std::vector<Outcome> outcomes(processes.size());
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] {
      MemoryStore store(keys);
      if (processes[i].after) keys.wait_until(processes[i].after);
      outcomes[i] = take_part(store, processes[i], 100 + static_cast<std::int64_t>(i));
    });
  }
  threads.clear();
  return outcomes;
}

inline std::vector<Process> world(int size) {
  std::vector<Process> processes;
  for (int rank = 0; rank < size; ++rank) processes.push_back({.rank = rank, .size = size});
  return processes;
}

/// Different processes that have answered as some rank.
inline std::size_t answers_of(int rank, const SharedKeys::Values& values) {
  std::set<std::string> nonces;
  for (const auto& [key, value] : values) {
    const auto hello = hello_of(value);
    const bool answer = key.find("/answer/") != std::string::npos;
    if (answer && hello && hello->rank == rank) nonces.insert(hello->nonce);
  }
  return nonces.size();
}

/// Comes after so many processes have answered as that rank.
inline auto answered(int rank, std::size_t processes) {
  return [=](const SharedKeys::Values& values) { return answers_of(rank, values) >= processes; };
}

/// Comes after a key with such a word in its name is there.
inline auto there(const std::string& word) {
  return [=](const SharedKeys::Values& values) {
    return std::ranges::any_of(
        values, [&](const auto& entry) { return entry.first.find(word) != std::string::npos; });
  };
}

/// Comes after the process run() gave that id has said hello as that rank.
inline auto said_hello(int rank, std::int64_t id) {
  return [=](const SharedKeys::Values& values) {
    const auto found = values.find(AgreementKeys("test").hello(rank));
    const auto hello = found == values.end() ? std::nullopt : hello_of(found->second);
    return hello && hello->process == id;
  };
}

inline void expect_agreement(const std::vector<Outcome>& outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].error, "") << "process " << i;
    EXPECT_TRUE(is_id(outcomes[i].generation)) << "process " << i;
    EXPECT_EQ(outcomes[i].generation, outcomes[0].generation) << "process " << i;
  }
}

inline void expect_refusal(const std::vector<Outcome>& outcomes, const std::string& reason) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    EXPECT_EQ(outcomes[i].generation, "") << "process " << i;
    EXPECT_NE(outcomes[i].error.find(reason), std::string::npos)
        << "process " << i << ": " << outcomes[i].error;
  }
}

}  // namespace shampoo::joining
