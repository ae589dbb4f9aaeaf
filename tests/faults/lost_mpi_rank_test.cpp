// SPDX-License-Identifier: Apache-2.0
// Three processes under mpirun, of which one is killed or stopped. MPI's launcher ends a job with a
// dead rank by itself; a stopped rank is found by the others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "tests/faults/fault_job.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int deadline = 3;  ///< s, of a collective
constexpr int grace = 15;    ///< s, for the launcher and a busy machine
constexpr int size = 3;

/// One job, of which rank `lost` is struck.
struct MpiJob {
  MpiJob(const std::string& fault, int lost, Phase phase)
      : process(
            {MPIRUN, "--oversubscribe", "-n", std::to_string(size), FAULT_TRAINER,
             "progress=" + folder.path(), "fault=" + fault, "fault_rank=" + std::to_string(lost),
             "fault_phase=" + name_of(phase), "deadline=" + std::to_string(deadline)},
            {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}) {}

  /// From the moment when the rank was struck until the job was seen to have ended.
  double seconds(int lost) const {
    const std::chrono::nanoseconds since(folder.progress(lost).value_or(Progress{}).since);
    return std::chrono::duration<double>(Clock::now().time_since_epoch() - since).count();
  }

  JobFolder folder;
  Process process;
};

class LostMpiRank : public testing::TestWithParam<Phase> {
 protected:
  void SetUp() override {
    if (access(MPIRUN, X_OK) != 0) GTEST_SKIP() << "no " << MPIRUN;
  }

  /// Strikes each rank of a job of its own, and waits until all of the job is gone.
  void strike(int row, const std::string& fault) {
    double slowest = 0;
    for (int lost = 0; lost < size; ++lost) {
      MpiJob job(fault, lost, GetParam());

      const int code = job.process.wait(60s);

      const double seconds = job.seconds(lost);
      EXPECT_GT(code, 0) << job.process.output();
      EXPECT_LT(seconds, deadline + grace);
      EXPECT_EQ(job.folder.progress(lost).value_or(Progress{}).phase, GetParam());
      EXPECT_TRUE(job.folder.is_left_by_all());
      if (fault == "stop") expect_named(job.process.output(), lost);
      slowest = std::max(slowest, seconds);
    }
    std::printf("row %d: %d ranks under mpirun, %s while %s; the job ended within %.1f s\n", row,
                size, fault.c_str(), name_of(GetParam()).c_str(), slowest);
  }

  static void expect_named(const std::string& output, int lost) {
    const std::string text = "rank " + std::to_string(lost) + " did not answer";
    EXPECT_NE(output.find(text), std::string::npos) << output;
    EXPECT_NE(output.find("not complete within"), std::string::npos) << output;
  }
};

TEST_P(LostMpiRank, ThatIsKilledEndsTheJob) { strike(1, "kill"); }

TEST_P(LostMpiRank, ThatIsStoppedIsNamedAndEndsTheJob) { strike(2, "stop"); }

INSTANTIATE_TEST_SUITE_P(Phases, LostMpiRank,
                         testing::Values(Phase::constructing, Phase::averaging, Phase::decomposing,
                                         Phase::between),
                         [](const auto& phase) { return name_of(phase.param); });

TEST(MpiRankThatAborts, EndsTheJobWithItsReason) {
  MpiJob job("abort", 1, Phase::decomposing);

  EXPECT_GT(job.process.wait(60s), 0);

  EXPECT_NE(job.process.output().find("rank 1 of 3 aborted: told to abort"), std::string::npos)
      << job.process.output();
  EXPECT_TRUE(job.folder.is_left_by_all());
}

TEST(MpiRankThatThrowsBetweenSteps, EndsTheJob) {
  MpiJob job("throw", 2, Phase::between);

  EXPECT_GT(job.process.wait(60s), 0);

  EXPECT_NE(job.process.output().find("error: told to throw"), std::string::npos)
      << job.process.output();
  EXPECT_TRUE(job.folder.is_left_by_all());
}

}  // namespace
}  // namespace shampoo::test
