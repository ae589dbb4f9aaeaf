// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace shampoo::test {

/// How a child ended and what it said.
struct Ending {
  int status = -1;  ///< of exit; -1 - n: killed by signal n
  std::string said;
};

/// A store served by a process of its own. A process with a thread that serves should not fork: the
/// lock of a sanitizer's allocator that the thread holds at that moment stays locked in the child.
class StoreProcess {
 public:
  StoreProcess();
  ~StoreProcess();
  StoreProcess(const StoreProcess&) = delete;
  StoreProcess& operator=(const StoreProcess&) = delete;
  StoreProcess(StoreProcess&&) = delete;
  StoreProcess& operator=(StoreProcess&&) = delete;

  std::uint16_t port() const { return port_; }
  /// Callable in the processes that are forked afterwards, too.
  /// Returns when it has stopped.
  void stop() const;

 private:
  pid_t pid_ = 0;
  std::uint16_t port_ = 0;
};

/// Forks `count` children that run body(rank), which returns what the child says, and ends with 0;
/// an exception is said too, and ends it with 1. Children that are left after `longest` are killed.
std::vector<Ending> run_processes(int count, const std::function<std::string(int rank)>& body,
                                  std::chrono::milliseconds longest = std::chrono::seconds(60));

}  // namespace shampoo::test
