// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distributor/store/store_server.h"
#include "tests/distributor/rendezvous/processes.h"
#include "tests/faults/progress.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::test {

/// The pages of one job, in a temporary folder. Kills what is left of the job in the end.
class JobFolder {
 public:
  JobFolder() = default;
  ~JobFolder();
  JobFolder(const JobFolder&) = delete;
  JobFolder& operator=(const JobFolder&) = delete;

  const std::string& path() const { return path_; }
  std::optional<Progress> progress(int rank, int restarts = 0) const;
  /// Waits a minute at most until the rank has come so far; whether it has.
  bool reaches(int rank, int step, Phase phase) const;

  /// Processes that have the folder in their command line and live.
  std::vector<pid_t> processes() const;
  /// Waits 20 s at most until none of them lives; whether that came.
  bool is_left_by_all() const;

 private:
  TemporaryFolder folder_;
  std::string path_ = folder_.path();
};

/// Who serves the store where the ranks meet: the test, as a launcher does, or rank 0.
enum class Server : std::uint8_t { test, rank_zero };

/// Three ranks of fault_trainer.cpp over Gloo, each a process of the test.
class FaultJob {
 public:
  static constexpr int size = 3;

  /// `orders` as fault_trainer.cpp takes them.
  explicit FaultJob(const std::vector<std::string>& orders, Server server = Server::test);

  /// Looks who has ended. Whether all have, apart from `exempt`.
  bool have_ended(int exempt = -1);
  /// The code as Process::wait() gives it; -1 while the rank runs.
  int code(int rank) const { return ranks_[static_cast<std::size_t>(rank)].code; }
  std::string output(int rank) const;
  const JobFolder& folder() const { return folder_; }
  /// From the moment when rank `from` entered its last phase until rank `to` was seen to have
  /// ended.
  double seconds(int from, int to) const;

 private:
  struct Rank {
    std::unique_ptr<Process> process;
    int code = -1;
    std::chrono::steady_clock::time_point end = {};
  };

  StoreServer store_;
  JobFolder folder_;
  std::vector<Rank> ranks_;
};

/// Polls until condition() holds, `longest` at most; whether it did.
template <typename Condition>
bool comes_true(std::chrono::milliseconds longest, const Condition& condition);

/// A wait between two looks.
void pause_shortly();

template <typename Condition>
bool comes_true(std::chrono::milliseconds longest, const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + longest;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    pause_shortly();
  }
  return true;
}

}  // namespace shampoo::test
