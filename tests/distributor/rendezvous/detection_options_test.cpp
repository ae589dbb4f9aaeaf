// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <chrono>

#include "distributor/rendezvous/detection.h"
#include "kernels/backend.h"
#include "launcher_variables.h"
#include "support/thrown.h"

namespace shampoo::rendezvous {
namespace {

TEST(DetectionOptions, LauncherThatIsNamedMustBeThere) {
  expect_fault(fault({}, {.launcher = Launcher::torchrun}), {"RANK is missing", "Found: none"});
  expect_fault(fault(torchrun(), {.launcher = Launcher::mpi}), {"OMPI_COMM_WORLD_RANK is missing"});
  expect_fault(fault({}, {.launcher = Launcher::slurm}), {"SLURM_PROCID is missing"});
  expect_fault(fault(without(slurm(), "SLURM_STEP_ID"), {.launcher = Launcher::slurm}),
               {"SLURM_STEP_ID is missing"});
}

TEST(DetectionOptions, LauncherThatIsNamedWins) {
  const Environment all = both(both(slurm(), open_mpi()), torchrun());
  const Environment agreeing = without(all, "WORLD_SIZE");

  EXPECT_EQ(detect(agreeing, {.launcher = Launcher::slurm}).start, Start::slurm);
  EXPECT_EQ(detect(agreeing, {.launcher = Launcher::mpi}).start, Start::open_mpi);
  EXPECT_EQ(detect(mpich(), {.launcher = Launcher::mpi}).start, Start::mpich);
  EXPECT_EQ(detect(all, {.launcher = Launcher::one_rank}).start, Start::alone);
  EXPECT_EQ(detect({{"RANK", "junk"}}, {.launcher = Launcher::one_rank}).size, 1);
}

TEST(DetectionOptions, PlaceThatIsGivenWinsOverAllVariables) {
  EXPECT_EQ(text(detect(both(slurm(), torchrun()),
                        {.rank = 1, .size = 2, .local_rank = 1, .host = "h", .port = 9})),
            "given 1/2, local 1/?, store h:9, job ");
}

TEST(DetectionOptions, PlaceThatIsGivenIsChecked) {
  expect_fault(fault({}, {.rank = 0}), {"rank and size must be set both"});
  expect_fault(fault({}, {.size = 2}), {"rank and size must be set both"});
  expect_fault(fault({}, {.rank = 0, .size = 0}), {"size = 0", "1 to 1048576"});
  expect_fault(fault({}, {.rank = 2, .size = 2}), {"rank = 2", "0 to size - 1 = 1"});
  expect_fault(fault({}, {.rank = -1, .size = 2}), {"rank = -1"});
  expect_fault(fault({}, {.rank = 0, .size = 2, .local_rank = 2, .host = "h", .port = 1}),
               {"local_rank = 2"});
  expect_fault(fault({}, {.rank = 0, .size = 2, .host = "h"}), {"host and port must be set"});
  expect_fault(fault({}, {.rank = 0, .size = 2, .port = 1}), {"host and port must be set"});
  expect_fault(fault({}, {.launcher = Launcher::slurm, .rank = 0, .size = 1}),
               {"launcher must be automatic"});
  EXPECT_EQ(detect({}, {.rank = 0, .size = 1}).size, 1);
}

TEST(DetectionOptions, DeadlinesAreFrom1MillisecondToOneYear) {
  using std::chrono::milliseconds;
  const auto backend = cpu_backend({.threads = 1});
  const auto text_of = [&](const JoinOptions& options) {
    return test::error_of<std::invalid_argument>([&] { join(*backend, options); });
  };
  constexpr milliseconds year = std::chrono::days(365);
  for (const milliseconds wrong : {milliseconds(0), year + milliseconds(1), milliseconds::max()}) {
    const std::string range =
        " = " + std::to_string(wrong.count()) + " ms, accepted: 1 ms to one year";
    EXPECT_EQ(text_of({.connect_deadline = wrong}), "join: JoinOptions::connect_deadline" + range);
    EXPECT_EQ(text_of({.deadline = wrong}), "join: JoinOptions::deadline" + range);
  }
  for (const milliseconds right : {milliseconds(1), year})
    EXPECT_EQ(join(*backend,
                   {.launcher = Launcher::one_rank, .connect_deadline = right, .deadline = right})
                  ->size(),
              1);
}

TEST(DetectionOptions, BracketsAroundAnAddressDoNotCount) {
  EXPECT_EQ(detect(with(torchrun(), {{"MASTER_ADDR", "[::1]"}})).host, "::1");
  EXPECT_EQ(detect({}, {.rank = 0, .size = 2, .host = "[::1]", .port = 1}).host, "::1");
}

TEST(DetectionOptions, LengthsOfTextsAreLimited) {
  expect_fault(fault({}, {.job = std::string(1025, 'j')}), {"JoinOptions::job has 1025 bytes"});
  expect_fault(fault({}, {.build = std::string(65'537, 'b')}), {"JoinOptions::build has 65537"});
  expect_fault(fault(with(torchrun(), {{"TORCHELASTIC_RUN_ID", std::string(1025, 'j')}})),
               {"TORCHELASTIC_RUN_ID has 1025 bytes"});
}

TEST(DetectionOptions, StoreAddressThatIsGivenHasNoServerOfTheLauncher) {
  EXPECT_EQ(text(detect(torchrun(), {.port = 29501})),
            "torchrun 5/8, local 1/4, store node1:29501, job none");
  EXPECT_EQ(text(detect(torchrun(), {.host = "node1", .port = 29500, .job = "mine"})),
            "torchrun 5/8, local 1/4, store node1:29500 of the agent, job mine");
}

}  // namespace
}  // namespace shampoo::rendezvous
