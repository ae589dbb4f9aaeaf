// SPDX-License-Identifier: Apache-2.0
// Three processes over Gloo, of which one is killed or stopped in every phase of its training, and
// killed in every part of a save.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <regex>

#include "shampoo/checkpoint_directory.h"
#include "tests/faults/fault_job.h"

namespace shampoo::test {
namespace {

using namespace std::chrono_literals;

constexpr int deadline = 3;  ///< s, of a collective
constexpr int grace = 8;     ///< s; beyond the deadline, on a busy machine
constexpr auto longest = 60s;

std::vector<std::string> orders(const std::string& fault, int rank, Phase phase) {
  // Joining has a deadline of its own, in which three processes must be able to start.
  const int connect = phase <= Phase::connecting ? 5 : 60;
  return {"fault=" + fault, "fault_rank=" + std::to_string(rank), "fault_phase=" + name_of(phase),
          "deadline=" + std::to_string(deadline), "connect=" + std::to_string(connect)};
}

/// The same fault on each rank of a job of its own.
std::vector<std::unique_ptr<FaultJob>> one_for_each_rank(const std::string& fault, Phase phase,
                                                         Server server = Server::test) {
  std::vector<std::unique_ptr<FaultJob>> jobs;
  for (int rank = 0; rank < FaultJob::size; ++rank)
    jobs.push_back(std::make_unique<FaultJob>(orders(fault, rank, phase), server));
  return jobs;
}

/// Waits for all ranks but the struck one.
void await_others(const std::vector<std::unique_ptr<FaultJob>>& jobs) {
  comes_true(longest, [&] {
    bool all = true;
    for (std::size_t rank = 0; rank < jobs.size(); ++rank)
      all = jobs[rank]->have_ended(static_cast<int>(rank)) && all;
    return all;
  });
}

void expect_text(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' in: " << text;
}

/// Rank `rank` ended by itself with an error, of which the optimizer keeps the memory.
void expect_clean_failure(const FaultJob& job, int rank, Phase struck) {
  EXPECT_EQ(job.code(rank), 3) << job.output(rank);
  expect_text(job.output(rank), {"error: "});
  if (struck <= Phase::constructing) return;
  expect_text(job.output(rank), {"again: step ", "; the optimizer can no longer be used"});
}

/// `lost` is among those that did not answer. So may a rank be that a busy machine keeps from
/// answering.
void expect_no_answer(const std::string& text, int lost) {
  const std::regex named("ranks? ([0-9, and]* )?" + std::to_string(lost) +
                         "(,? [0-9, and]*)? did not answer");
  EXPECT_TRUE(std::regex_search(text, named)) << "rank " << lost << " is not named in: " << text;
}

/// The others failed in time, and name the lost rank. Returns the longest time.
double expect_others_fail(const FaultJob& job, int lost, Phase phase) {
  double slowest = 0;
  for (int rank = 0; rank < FaultJob::size; ++rank) {
    if (rank == lost) continue;
    expect_clean_failure(job, rank, phase);
    if (phase <= Phase::connecting)
      expect_text(job.output(rank), {"rank " + std::to_string(lost) + " did not come"});
    else
      expect_no_answer(job.output(rank), lost);
    // Where one rank has joined, another may still be at it.
    if (phase > Phase::constructing) expect_text(job.output(rank), {"(collective "});
    slowest = std::max(slowest, job.seconds(lost, rank));
  }
  EXPECT_LT(slowest, deadline + grace);
  return slowest;
}

void report(int row, const std::string& what, std::size_t count, Phase phase, double slowest) {
  std::printf("row %d: %zu %s while %s; the others failed within %.1f s\n", row, count,
              what.c_str(), name_of(phase).c_str(), slowest);
}

/// Each of these jobs lost the rank of its number.
void expect_kills(const std::vector<std::unique_ptr<FaultJob>>& jobs, Phase phase) {
  await_others(jobs);

  double slowest = 0;
  for (int lost = 0; lost < static_cast<int>(jobs.size()); ++lost) {
    EXPECT_EQ(jobs[lost]->code(lost), 128 + SIGKILL) << jobs[lost]->output(lost);
    slowest = std::max(slowest, expect_others_fail(*jobs[lost], lost, phase));
  }
  report(1, "kills", jobs.size(), phase, slowest);
}

class LostRank : public testing::TestWithParam<Phase> {};

TEST_P(LostRank, ThatIsKilledIsNamedByTheOthersInTime) {
  expect_kills(one_for_each_rank("kill", GetParam()), GetParam());
}

TEST_P(LostRank, ThatIsStoppedIsNamedByTheOthersInTimeAndFailsCleanlyWhenItGoesOn) {
  const auto jobs = one_for_each_rank("stop", GetParam());

  await_others(jobs);

  double slowest = 0;
  for (int lost = 0; lost < FaultJob::size; ++lost) {
    FaultJob& job = *jobs[lost];
    EXPECT_EQ(job.code(lost), -1) << "it is stopped: " << job.output(lost);
    slowest = std::max(slowest, expect_others_fail(job, lost, GetParam()));
    kill(job.folder().progress(lost).value().process, SIGCONT);
  }
  EXPECT_TRUE(comes_true(longest, [&] {
    return jobs[0]->have_ended() && jobs[1]->have_ended() && jobs[2]->have_ended();
  }));
  for (int lost = 0; lost < FaultJob::size; ++lost)
    expect_clean_failure(*jobs[lost], lost, GetParam());
  report(2, "stops", jobs.size(), GetParam(), slowest);
}

INSTANTIATE_TEST_SUITE_P(Phases, LostRank,
                         testing::Values(Phase::joining, Phase::constructing, Phase::gradients,
                                         Phase::averaging, Phase::preparing, Phase::decomposing,
                                         Phase::exchanging, Phase::applying, Phase::between),
                         [](const auto& phase) { return name_of(phase.param); });

TEST(LostRankThatConnects, IsNamedByTheOthersInTime) {
  expect_kills(one_for_each_rank("kill", Phase::connecting), Phase::connecting);
}

struct PartOfASave {
  Phase phase;
  bool threaded;  ///< in the background, while training goes on
  int ranks;      ///< of which each has this part, from 0 on
};

/// The checksum with which all ranks end that go on from the checkpoints of a folder.
std::optional<std::uint64_t> end_of_a_job(const std::string& checkpoints, int steps = 12) {
  FaultJob job({"checkpoints=" + checkpoints, "steps=" + std::to_string(steps)});
  if (!comes_true(longest, [&] { return job.have_ended(); })) return {};
  const std::uint64_t sum = job.folder().progress(0).value().checksum;
  for (int rank = 0; rank < FaultJob::size; ++rank)
    if (job.code(rank) != 0 || job.folder().progress(rank).value().checksum != sum) return {};
  return sum;
}

class LostRankInASave : public testing::TestWithParam<PartOfASave> {};

TEST_P(LostRankInASave, IsNamedByTheOthersAndTheJobGoesOnToTheSameBits) {
  const auto& [phase, threaded, ranks] = GetParam();
  const TemporaryFolder folder;
  const auto checkpoints = [&](int rank) { return folder.path() / std::to_string(rank); };
  ASSERT_TRUE(end_of_a_job(folder.path() / "undisturbed", 3));
  std::vector<std::unique_ptr<FaultJob>> jobs;
  for (int rank = 0; rank < ranks; ++rank) {
    std::filesystem::copy(folder.path() / "undisturbed", checkpoints(rank),
                          std::filesystem::copy_options::recursive);
    std::vector<std::string> all = orders("kill", rank, phase);
    all.push_back("checkpoints=" + checkpoints(rank).string());
    all.push_back(std::string("threaded=") + (threaded ? "yes" : "no"));
    jobs.push_back(std::make_unique<FaultJob>(all));
  }

  expect_kills(jobs, phase);

  const auto undisturbed = end_of_a_job(folder.path() / "undisturbed");
  ASSERT_TRUE(undisturbed);
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(latest_checkpoint(checkpoints(rank)), checkpoints(rank) / "step-3");
    EXPECT_EQ(end_of_a_job(checkpoints(rank)), undisturbed) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, LostRankInASave,
                         testing::Values(PartOfASave{Phase::snapshotting, true, FaultJob::size},
                                         PartOfASave{Phase::persisting, true, FaultJob::size},
                                         PartOfASave{Phase::committing, false, 1},
                                         PartOfASave{Phase::renaming, false, 1}),
                         [](const auto& part) { return name_of(part.param.phase); });

TEST(LostRankZero, TakesTheStoreAlongAndTheOthersStillFailInTime) {
  for (const std::string fault : {"kill", "stop"}) {
    FaultJob job(orders(fault, 0, Phase::decomposing), Server::rank_zero);

    comes_true(longest, [&] { return job.have_ended(0); });

    for (const int rank : {1, 2}) {
      expect_clean_failure(job, rank, Phase::decomposing);
      EXPECT_LT(job.seconds(0, rank), deadline + grace);
      expect_text(job.output(rank), {"the store"});
    }
  }
}

TEST(RankThatThrowsBetweenSteps, IsNamedByTheOthers) {
  const auto jobs = one_for_each_rank("throw", Phase::between);

  await_others(jobs);

  for (int lost = 0; lost < FaultJob::size; ++lost) {
    EXPECT_TRUE(comes_true(longest, [&] { return jobs[lost]->have_ended(); }));
    EXPECT_EQ(jobs[lost]->code(lost), 4) << jobs[lost]->output(lost);
    expect_text(jobs[lost]->output(lost), {"error: told to throw"});
    expect_others_fail(*jobs[lost], lost, Phase::between);
  }
}

TEST(RankThatAborts, TellsTheOthersWhy) {
  for (const Phase phase : {Phase::averaging, Phase::decomposing}) {
    const auto jobs = one_for_each_rank("abort", phase);

    await_others(jobs);

    for (int lost = 0; lost < FaultJob::size; ++lost) {
      EXPECT_TRUE(comes_true(longest, [&] { return jobs[lost]->have_ended(); }));
      for (int rank = 0; rank < FaultJob::size; ++rank) {
        expect_clean_failure(*jobs[lost], rank, phase);
        expect_text(jobs[lost]->output(rank),
                    {"rank " + std::to_string(lost), " aborted: told to abort"});
        EXPECT_LT(jobs[lost]->seconds(lost, rank), deadline + grace);
      }
    }
  }
}

}  // namespace
}  // namespace shampoo::test
