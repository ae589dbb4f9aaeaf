// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "distributor/error.h"
#include "distributor/join/agreement.h"
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
  milliseconds deadline = milliseconds(20'000);
  std::string library = "1.0", build = {};
};

inline Outcome take_part(Store& store, const Process& process, std::int64_t id) {
  std::this_thread::sleep_for(process.delay);
  const Hello hello{.rank = process.rank,
                    .size = process.size,
                    .library = process.library,
                    .build = process.build,
                    .host = "here",
                    .process = id};
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
