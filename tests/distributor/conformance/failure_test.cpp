// SPDX-License-Identifier: Apache-2.0
// What a launcher makes of workers that end, and of commands that cannot work.
#include "tests/distributor/conformance/launcher_conformance.h"

namespace shampoo::launcher::test {
namespace {

class FailedWorker : public Conformance {
 protected:
  static void expect_text(const LaunchedJob& job, const std::string& text) {
    EXPECT_GE(job.count(text), 1) << text << "\n" << job.output();
  }
};

TEST_P(FailedWorker, IsNotOneThatEndsEarlyWithZero) {
  LaunchedJob job(command(workers(2), {"rank=0", "exit=0", "sleep=700", "print"}));

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank 1/2");
}

TEST_P(FailedWorker, HasItsCodeAndItsLongErrorFileInTheSummary) {
  LaunchedJob job(
      command(workers(2), {"rank=1",
                           R"(report={"message": {"message": "CheeseError: none", "extraInfo": )"
                           R"({"py_callstack": "line 5 of shop.py", "timestamp": "1700000000"}}})",
                           "rank=1", "exit=17", "forever"}));

  EXPECT_EQ(job.wait(), 1) << job.output();
  expect_text(job, "Root Cause (first observed failure):\n[");
  expect_text(job, "  time      : 2023-11-1");
  expect_text(job, "  rank      : 1 (local_rank: 1)\n  exitcode  : 17 (pid: ");
  expect_text(job, "  error_file: " + logs() + "/none_");
  expect_text(job, "/attempt_0/1/error.json\n");
  expect_text(job, "  traceback : line 5 of shop.py\n");
  EXPECT_TRUE(job.processes().empty());
}

TEST_P(FailedWorker, HasItsSignalAndItsShortErrorFileInTheSummary) {
  LaunchedJob job(command(
      workers(1), {R"(report={"message": "no cheese", "timestamp": 1700000000})", "raise=9"}));

  EXPECT_EQ(job.wait(), 1) << job.output();
  expect_text(job, "  time      : 2023-11-1");
  expect_text(job, "  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: ");
  expect_text(job, "  traceback : no cheese\n");
}

TEST_P(FailedWorker, OfOneNodeEndsTheOtherNode) {
  const std::string end = GetParam().nodes_fail_alone ? "sleep=500" : "forever";
  LaunchedJob first(command(node(0, 1), {end, "store"}));
  LaunchedJob second(command(node(1, 1), {"exit=17"}));

  EXPECT_EQ(second.wait(), 1) << second.output();
  expect_text(second, "  rank      : 1 (local_rank: 0)\n  exitcode  : 17 (pid: ");
  if (GetParam().nodes_fail_alone) {
    // Then release 2.15 waits five minutes more for the node that is gone.
    EXPECT_TRUE(first.prints("counter 1")) << first.output();
  } else {
    EXPECT_EQ(first.wait(), 1) << first.output();
    EXPECT_TRUE(first.processes().empty());
  }
}

TEST_P(FailedWorker, MayLeaveABrokenErrorFileWithoutLosingRestarts) {
  LaunchedJob job(
      command(workers(1) + Words{"--max_restarts", "1"},
              {"attempt=0", R"(report={"message": {"mess)", "attempt=0", "exit=3", "print"}));

  EXPECT_EQ(job.wait(), GetParam().breaks_on_broken_report ? 1 : 0) << job.output();
  EXPECT_EQ(job.count("attempt 1 "), GetParam().breaks_on_broken_report ? 0 : 1) << job.output();
}

TEST_P(FailedWorker, WithoutAProgramIsNamed) {
  LaunchedJob job(command(workers(1), {}, "/no/such/program"));

  EXPECT_EQ(job.wait(), 1) << job.output();
  expect_text(job, "/no/such/program");
}

TEST_P(FailedWorker, IsNotEvenStartedAfterAnUnknownFlag) {
  LaunchedJob job(command({"--no_such_flag", "1"}, {"print"}));

  EXPECT_EQ(job.wait(), 2) << job.output();
  expect_text(job, "no_such_flag");
  EXPECT_EQ(job.count("rank 0/1"), 0) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Launchers, FailedWorker, testing::ValuesIn(tested_launchers()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace shampoo::launcher::test
