// SPDX-License-Identifier: Apache-2.0
// Attempts after the first one, and what is left from that in the store.
#include "distributor/transports/gloo/gloo.h"
#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {
namespace {

class Restart : public Conformance {};

TEST_P(Restart, CountsAttemptsUntilNoneIsLeft) {
  LaunchedJob job(command(workers(2) + Words{"--max_restarts", "1"},
                          {"print", "rank=0", "store", "attempt=0", "rank=0", "exit=3", "attempt=1",
                           "rank=0", "raise=9", "forever"}));

  EXPECT_EQ(job.wait(), 1) << job.output();
  for (const char* attempt : {" attempt 0 ", " attempt 1 "}) {
    const std::string place = "rank 0/2 local 0/2 group 0/1";
    EXPECT_EQ(job.count(place + attempt), 1) << job.output();
  }
  EXPECT_EQ(job.count("Signal 9 (SIGKILL) received by PID"), 1) << job.output();
  EXPECT_EQ(job.count("counter 1"), GetParam().fresh_store ? 2 : 1) << job.output();
  EXPECT_EQ(job.count("counter 2"), GetParam().fresh_store ? 0 : 1) << job.output();
}

TEST_P(Restart, OfARankThatIsKilledLetsAllJoinAgain) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  LaunchedJob job(command(
      workers(2) + Words{"--max_restarts", "1"},
      {"fault=die", "fault_rank=1", "fault_step=1", "fault_restarts=0", "steps=3"}, JOIN_WORKER));

  EXPECT_EQ(job.wait(), 0) << job.output();
  for (const char* rank : {"0", "1"}) {
    EXPECT_EQ(job.count("rank=" + std::string(rank) + " size=2 local_rank=" + rank +
                        " launcher=torchrun restarts=1 sum=1"),
              1)
        << job.output();
  }
}

/// Of the counts of restarts, torchrun raises that of the node whose worker failed.
TEST_P(Restart, OfARankOnOneOfTwoNodesThatMeetLetsAllJoinAgain) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  const Words flags{
      "--nnodes",  "2",   "--rdzv_backend", "c10d", "--rdzv_endpoint",  "127.0.0.1:" + port(),
      "--rdzv_id", "job", "--max_restarts", "1",    "--nproc_per_node", "1"};
  const Words fault{"fault=die", "fault_rank=1", "fault_step=1", "fault_restarts=0", "steps=3"};
  LaunchedJob one(command(flags, fault, JOIN_WORKER)), other(command(flags, fault, JOIN_WORKER));

  EXPECT_EQ(one.wait(), 0) << one.output();
  EXPECT_EQ(other.wait(), 0) << other.output();
  for (const char* rank : {"0", "1"}) {
    const std::string joined = "rank=" + std::string(rank) + " size=2";
    EXPECT_EQ(one.count(joined) + other.count(joined), 1) << one.output() << other.output();
  }
}

INSTANTIATE_TEST_SUITE_P(Launchers, Restart, testing::ValuesIn(tested_launchers()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::launcher::test
