// SPDX-License-Identifier: Apache-2.0
// Three processes under mpirun, of which one is killed or stopped. MPI's launcher ends a job with a
// dead rank by itself; a stopped rank is found by the others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "tests/faults/fault_job.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int deadline = 3;  ///< s, of a collective
constexpr int grace = 15;    ///< s, for the launcher and a busy machine
constexpr int size = 3;

/// One job, of which rank `lost` is struck. What counts is that its ranks end: mpirun of Open MPI
/// 4.1 sometimes waits for ever in PMIx_server_finalize() when they have.
struct MpiJob {
  MpiJob(const std::string& fault, int lost, Phase phase)
      : process(
            {MPIRUN, "--oversubscribe", "-n", std::to_string(size), FAULT_TRAINER,
             "progress=" + folder.path(), "fault=" + fault, "fault_rank=" + std::to_string(lost),
             "fault_phase=" + name_of(phase), "deadline=" + std::to_string(deadline)},
            {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}}) {}

  /// The page of rank `lost` as it is when it has been struck; the launcher wakes a stopped rank up
  /// before it kills it. Nothing if that does not come.
  std::optional<Progress> struck(int lost, Phase phase) const {
    std::optional<Progress> last;
    comes_true(30s, [&] {
      last = folder.progress(lost);
      return last && last->phase == phase && seconds_since(*last) > 0.3;
    });
    return last && last->phase == phase ? last : std::nullopt;
  }

  /// Waits a minute at most until no rank lives; whether that came.
  bool is_left_by_all_ranks() const {
    return comes_true(60s, [&] {
      const std::vector<pid_t> alive = folder.processes();
      for (int rank = 0; rank < size; ++rank) {
        const std::optional<Progress> page = folder.progress(rank);
        if (page && std::ranges::find(alive, page->process) != alive.end()) return false;
      }
      return true;
    });
  }

  static double seconds_since(const Progress& last) {
    const std::chrono::nanoseconds since(last.since);
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

      const std::optional<Progress> last = job.struck(lost, GetParam());
      ASSERT_TRUE(last) << job.process.output();
      EXPECT_TRUE(job.is_left_by_all_ranks()) << job.process.output();
      const double seconds = job.seconds_since(*last);

      EXPECT_LT(seconds, deadline + grace);
      EXPECT_NE(job.process.wait(5s), 0) << job.process.output();
      if (fault == "stop") expect_named(job.process.output(), lost);
      slowest = std::max(slowest, seconds);
    }
    std::printf("row %d: %d ranks under mpirun, %s while %s; the job ended within %.1f s\n", row,
                size, fault.c_str(), name_of(GetParam()).c_str(), slowest);
  }

  static void expect_named(const std::string& output, int lost) {
    const std::string text = "rank " + std::to_string(lost) + " did not answer";
    EXPECT_NE(output.find(text), std::string::npos) << output;
    // One that hears of another's deadline may end the job before that one has said so.
    const bool has_reason = output.find("not complete within") != std::string::npos ||
                            output.find("reported a failure") != std::string::npos;
    EXPECT_TRUE(has_reason) << output;
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

  EXPECT_TRUE(comes_true(30s, [&] {
    return job.process.output().find("rank 1 of 3 aborted: told to abort") != std::string::npos;
  })) << job.process.output();
  EXPECT_TRUE(job.is_left_by_all_ranks());
  EXPECT_NE(job.process.wait(5s), 0);
}

TEST(MpiRankThatThrowsBetweenSteps, EndsTheJob) {
  MpiJob job("throw", 2, Phase::between);

  ASSERT_TRUE(job.struck(2, Phase::between));
  EXPECT_TRUE(job.is_left_by_all_ranks());

  EXPECT_NE(job.process.output().find("error: told to throw"), std::string::npos)
      << job.process.output();
  EXPECT_NE(job.process.wait(5s), 0);
}

}  // namespace
}  // namespace shampoo::test
