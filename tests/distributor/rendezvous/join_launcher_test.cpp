// SPDX-License-Identifier: Apache-2.0
// Under the launchers that this machine has.
#include <gtest/gtest.h>
#include <unistd.h>

#include "distributor/transports/gloo/gloo.h"
#include "distributor/transports/mpi/mpi.h"
#include "processes.h"

namespace shampoo {
namespace {

using Words = std::vector<std::string>;

const std::string torchrun_path = "/usr/bin/torchrun", mpirun_path = "/usr/bin/mpirun";

bool can_run(const std::string& path) { return access(path.c_str(), X_OK) == 0; }

Words words_of(Words first, const Words& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

void expect_text(const Process& process, const std::string& text) {
  EXPECT_NE(process.output().find(text), std::string::npos) << text << "\n" << process.output();
}

class Torchrun : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_run(torchrun_path)) GTEST_SKIP() << "no " << torchrun_path;
    if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  }

  /// Redirection of a local rank that does not exist: release 1.13 fails without on Python 3.11.
  static Words torchrun(const Words& options, const Words& orders) {
    const Words first = {
        torchrun_path, "--no_python",      "-r", "9:1", "-t", "9:1", "--monitor_interval",
        "0.2",         "--nproc_per_node", "2"};
    return words_of(words_of(words_of(first, options), {JOIN_WORKER}), orders);
  }
};

TEST_F(Torchrun, RanksJoinAtTheStoreOfTheAgent) {
  Process job(torchrun({"--master_port", std::to_string(free_port())}, {}), {});

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=0 size=2 local_rank=0 launcher=torchrun restarts=0 sum=1");
  expect_text(job, "rank=1 size=2 local_rank=1 launcher=torchrun restarts=0 sum=1");
}

TEST_F(Torchrun, RanksJoinAtTheStoreOfRankZero) {
  Process job(torchrun({"--rdzv_backend", "c10d", "--rdzv_endpoint",
                        "localhost:" + std::to_string(free_port())},
                       {}),
              {});

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=0 size=2 local_rank=0 launcher=torchrun restarts=0 sum=1");
  expect_text(job, "rank=1 size=2 local_rank=1 launcher=torchrun restarts=0 sum=1");
}

TEST_F(Torchrun, RestartedRanksIgnoreTheKeysOfTheFirstAttempt) {
  Process job(
      torchrun({"--master_port", std::to_string(free_port()), "--max_restarts", "1"},
               {"fault=die", "fault_rank=1", "fault_step=1", "fault_restarts=0", "steps=3"}),
      {});

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=0 size=2 local_rank=0 launcher=torchrun restarts=1 sum=1");
  expect_text(job, "rank=1 size=2 local_rank=1 launcher=torchrun restarts=1 sum=1");
}

TEST_F(Torchrun, MessageOfTheFirstErrorIsPrinted) {
  Process job(torchrun({"--master_port", std::to_string(free_port())},
                       {"fault=throw", "fault_rank=1", "fault_step=-1"}),
              {});

  EXPECT_EQ(job.wait(), 1) << job.output();
  expect_text(job, "traceback : told to throw");
}

class Mpirun : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_run(mpirun_path)) GTEST_SKIP() << "no " << mpirun_path;
    if (!has_mpi()) GTEST_SKIP() << "this build has no MPI";
  }

  static Words mpirun(int ranks, const Words& orders) {
    return words_of({mpirun_path, "--oversubscribe", "-n", std::to_string(ranks), JOIN_WORKER},
                    orders);
  }

  const std::map<std::string, std::string> as_root_ = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                                       {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
};

TEST_F(Mpirun, RanksTalkOverMpi) {
  Process job(mpirun(2, {"steps=3"}), as_root_);

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=0 size=2 local_rank=0 launcher=Open MPI");
  expect_text(job, "rank=1 size=2 local_rank=1 launcher=Open MPI");
  expect_text(job, "MPI");
}

TEST_F(Mpirun, OneProcessIsOneRank) {
  Process job(mpirun(1, {}), as_root_);

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=0 size=1 local_rank=0 launcher=Open MPI");
}

TEST_F(Mpirun, GlooNeedsTheAddressOfAStore) {
  Process job(mpirun(2, {"transport=gloo"}), as_root_);

  EXPECT_EQ(job.wait(), 3) << job.output();
  expect_text(job, "MASTER_ADDR and MASTER_PORT");
}

TEST_F(Mpirun, GlooUsesTheStoreAddressThatIsGiven) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  std::map<std::string, std::string> variables = as_root_;
  variables["MASTER_ADDR"] = "127.0.0.1";
  variables["MASTER_PORT"] = std::to_string(free_port());
  Process job(mpirun(2, {"transport=gloo"}), variables);

  EXPECT_EQ(job.wait(), 0) << job.output();
  expect_text(job, "rank=1 size=2 local_rank=1 launcher=Open MPI");
}

TEST_F(Mpirun, ProcessThatMpiDidNotStartIsNotTakenForARank) {
  Process job({JOIN_WORKER}, {{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}});

  EXPECT_EQ(job.wait(), 3) << job.output();
  expect_text(job, "MPICH says rank 1 of 2, MPI says rank 0 of 1");
}

}  // namespace
}  // namespace shampoo
