// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace shampoo::test {

/// How a child ended and what it said.
struct Ending {
  int status = -1;  ///< of exit; -1 - n: killed by signal n
  std::string said;
};

/// Forks `count` children that run body(rank), which returns what the child says, and ends with 0;
/// an exception is said too, and ends it with 1. Children that are left after `longest` are killed.
std::vector<Ending> run_processes(int count, const std::function<std::string(int rank)>& body,
                                  std::chrono::milliseconds longest = std::chrono::seconds(60));

}  // namespace shampoo::test
