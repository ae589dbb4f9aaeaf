// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "../launcher/launched_job.h"
#include "launchers.h"
#include "tests/support/temporary_folder.h"

namespace shampoo::launcher::test {

using shampoo::test::TemporaryFolder;

using Words = std::vector<std::string>;

inline Words operator+(Words first, const Words& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// One test, for each launcher that is on this machine.
class Conformance : public testing::TestWithParam<TestedLauncher> {
 protected:
  void SetUp() override {
    if (GetParam().command.empty()) GTEST_SKIP() << GetParam().absence;
    // Launchers set the first one where it is missing; Python sets a locale where there is none.
    unsetenv("OMP_NUM_THREADS");
    setenv("LC_ALL", "C.UTF-8", 1);
  }

  /// The launcher with `flags`, on `program` with its arguments, which may be left out: see
  /// launched_worker.cpp.
  Words command(const Words& flags, const Words& arguments,
                const std::string& program = LAUNCHED_WORKER) const {
    return GetParam().command +
           Words{"--no_python", "--monitor_interval", "0.2", "--log_dir", logs()} + flags +
           Words{program} + arguments;
  }

  /// One node, on a port that is free.
  Words workers(int count) const {
    return {"--nproc_per_node", std::to_string(count), "--master_port", port_};
  }

  /// One of two nodes.
  Words node(int rank, int workers) const {
    return {"--nnodes",         "2",
            "--node_rank",      std::to_string(rank),
            "--master_addr",    "127.0.0.1",
            "--master_port",    port_,
            "--nproc_per_node", std::to_string(workers)};
  }

  const std::string& port() const { return port_; }
  std::string logs() const { return folder_.path() / "logs"; }
  const std::filesystem::path& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::string port_ = free_port();
};

}  // namespace shampoo::launcher::test
