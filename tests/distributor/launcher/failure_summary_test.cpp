// SPDX-License-Identifier: Apache-2.0
#include "distributor/launcher/output/failure_summary.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace shampoo::launcher::test {
namespace {

std::chrono::system_clock::time_point failed_at(int seconds) {
  return std::chrono::system_clock::time_point(std::chrono::seconds(seconds));
}

WorkerFailure failure(int rank, int seconds, int exit_code) {
  WorkerFailure result;
  result.time = failed_at(seconds);
  result.host = "node";
  result.rank = 10 + rank;
  result.local_rank = rank;
  result.exit_code = exit_code;
  result.pid = 100 + rank;
  return result;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(FailureSummary, TakesTheEarliestForTheRootCause) {
  std::vector<WorkerFailure> failures{failure(0, 50, -SIGTERM), failure(1, 40, 17)};
  EXPECT_EQ(root_cause(failures).local_rank, 1);

  failures[0].error = ErrorFile{.message = "m", .traceback = "", .time = failed_at(30)};
  EXPECT_EQ(root_cause(failures).local_rank, 0);
}

TEST(FailureSummary, KnowsThatTimesInErrorFilesLackThePartOfASecond) {
  std::vector<WorkerFailure> failures{failure(0, 50, 3), failure(1, 50, -SIGSEGV)};
  failures[0].time += std::chrono::milliseconds(900);
  failures[1].time += std::chrono::milliseconds(400);
  failures[0].error = ErrorFile{.message = "m", .traceback = "", .time = failed_at(50)};
  EXPECT_EQ(root_cause(failures).local_rank, 1);
}

TEST(FailureSummary, HasTorchrunsFields) {
  std::vector<WorkerFailure> failures{failure(0, 50, -SIGTERM), failure(1, 40, 17)};
  failures[1].error_file = "/logs/error.json";
  failures[1].error =
      ErrorFile{.message = "ValueError: x", .traceback = "first\nsecond", .time = {}};

  const std::string summary = failure_summary("program", failures);

  const std::size_t root = summary.find("Root Cause (first observed failure):\n[1]:\n");
  ASSERT_NE(root, std::string::npos) << summary;
  EXPECT_TRUE(contains(summary, "program FAILED\n"));
  const std::string others = summary.substr(0, root), cause = summary.substr(root);
  EXPECT_TRUE(contains(others, "Failures:\n[0]:\n"));
  EXPECT_TRUE(contains(others, "  rank      : 10 (local_rank: 0)\n"));
  EXPECT_TRUE(contains(others, "  exitcode  : -15 (pid: 100) (SIGTERM)\n"));
  EXPECT_TRUE(contains(others, "  error_file: <N/A>\n"));
  EXPECT_TRUE(contains(others, "  traceback : Signal 15 (SIGTERM) received by PID 100\n"));
  EXPECT_TRUE(contains(cause, "  host      : node\n"));
  EXPECT_TRUE(contains(cause, "  exitcode  : 17 (pid: 101)\n"));
  EXPECT_TRUE(contains(cause, "  error_file: /logs/error.json\n"));
  EXPECT_TRUE(contains(cause, "  message   : ValueError: x\n"));
  EXPECT_TRUE(contains(cause, "  traceback : first\n  second\n"));
}

TEST(FailureSummary, SaysThatNoOtherRankFailed) {
  const std::vector<WorkerFailure> failures{failure(0, 50, 1)};
  EXPECT_TRUE(contains(failure_summary("program", failures), "  <NO_OTHER_FAILURES>\n"));
}

TEST(FailureSummary, KnowsWhatAShellWouldSay) {
  EXPECT_EQ(shell_exit_code(failure(0, 0, 17)), 17);
  EXPECT_EQ(shell_exit_code(failure(0, 0, -SIGSEGV)), 139);
}

}  // namespace
}  // namespace shampoo::launcher::test
