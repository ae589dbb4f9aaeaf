// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "distributor/store/store.h"
#include "distributor/transports/gloo/gloo.h"
#include "tests/distributor/transports/transport_processes.h"

namespace shampoo::test {

/// Rank `rank` of `size` processes that use one store, for one job or more.
inline std::unique_ptr<Communicator> gloo_rank(
    int rank, int size, const StoreProcess& server,
    std::chrono::milliseconds deadline = std::chrono::seconds(30), std::size_t job = 0) {
  return gloo_communicator({.rank = rank, .size = size, .local_rank = rank},
                           connect_store("127.0.0.1", server.port(), std::chrono::seconds(10)),
                           {.prefix = "job" + std::to_string(job), .deadline = deadline});
}

/// Runs jobs of three processes each at the same time, as most of theirs is spent waiting: run(job,
/// rank) in each. The endings of their ranks, by job.
template <typename Run>
std::vector<std::vector<Ending>> run_jobs(std::size_t jobs, const Run& run,
                                          std::chrono::milliseconds longest) {
  constexpr std::size_t size = 3;
  const auto all = run_processes(
      static_cast<int>(size * jobs),
      [&](int i) { return run(static_cast<std::size_t>(i) / size, i % static_cast<int>(size)); },
      longest);
  std::vector<std::vector<Ending>> endings(jobs);
  for (std::size_t i = 0; i < all.size(); ++i) endings[i / size].push_back(all[i]);
  return endings;
}

/// "missing 1 2; the message".
inline std::string story(const CommunicationError& error) {
  std::string text = "missing";
  for (const int r : error.missing_ranks()) text += " " + std::to_string(r);
  return text + "; " + error.what();
}

}  // namespace shampoo::test
