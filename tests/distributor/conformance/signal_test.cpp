// SPDX-License-Identifier: Apache-2.0
// Signals to the launcher itself.
#include <csignal>

#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {
namespace {

class Signal : public Conformance {
 protected:
  /// Sends `signal` once both workers are ready for it; they say so when it reaches them.
  void expect_forwarded(int signal, const std::string& noted) const {
    const std::string ready = GetParam().loses_early_signals ? "sleep=1000" : "sleep=0";
    LaunchedJob job(
        command(workers(2), {"note=" + std::to_string(signal), ready, "print", "sleep=60000"}));
    ASSERT_TRUE(job.prints("rank 0/2") && job.prints("rank 1/2")) << job.output();

    job.send(signal);

    EXPECT_EQ(job.wait(), 1) << job.output();
    EXPECT_EQ(job.count(noted), 2) << job.output();
    EXPECT_TRUE(job.processes().empty());
  }
};

TEST_P(Signal, TerminationIsPassedOn) { expect_forwarded(SIGTERM, "SP\n"); }

TEST_P(Signal, InterruptIsPassedOn) { expect_forwarded(SIGINT, "SC\n"); }

TEST_P(Signal, KillLeavesNoWorker) {
  LaunchedJob job(command(workers(2), {"print", "forever"}));
  ASSERT_TRUE(job.prints("rank 0/2") && job.prints("rank 1/2")) << job.output();

  job.send(SIGKILL);

  EXPECT_EQ(job.wait(), 128 + SIGKILL);
  if (GetParam().leaves_orphans) {
    EXPECT_EQ(job.processes().size(), 2U);
  } else {
    EXPECT_TRUE(job.leaves_nothing());
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, Signal, testing::ValuesIn(tested_launchers()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::launcher::test
