// SPDX-License-Identifier: Apache-2.0
#include "distributor/rendezvous/detection.h"

#include <gtest/gtest.h>

#include "launcher_variables.h"

namespace shampoo::rendezvous {
namespace {

TEST(Detection, NothingIsOneRank) {
  for (const Environment& variables :
       {Environment{}, Environment{{"PATH", "/bin"}},
        Environment{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}},
        Environment{{"RANK", ""}, {"WORLD_SIZE", ""}}})
    EXPECT_EQ(text(detect(variables)), "one rank 0/1, local 0/?, store :0, job ");
}

TEST(Detection, TorchrunIsRead) {
  EXPECT_EQ(text(detect(torchrun())),
            "torchrun 5/8, local 1/4, store node1:29500 of the agent, job none");
}

TEST(Detection, OnlyTheTextTrueMeansThatTheAgentServes) {
  for (const std::string value : {"False", "true", "1", "", "TRUE", "True "}) {
    const Detected found = detect(with(torchrun(), {{"TORCHELASTIC_USE_AGENT_STORE", value}}));
    EXPECT_FALSE(found.agent_hosts_store) << value;
  }
  EXPECT_FALSE(detect(without(torchrun(), "TORCHELASTIC_USE_AGENT_STORE")).agent_hosts_store);
}

TEST(Detection, RunIdAndRestartsOfTorchrunTellAttemptsApart) {
  EXPECT_EQ(detect(torchrun()).restarts, 0);
  const Environment restarted = {{"TORCHELASTIC_RUN_ID", "mine"},
                                 {"TORCHELASTIC_RESTART_COUNT", "2"}};
  EXPECT_EQ(detect(with(torchrun(), restarted)).job, "mine");
  EXPECT_EQ(detect(with(torchrun(), restarted)).restarts, 2);
  expect_fault(fault(with(torchrun(), {{"TORCHELASTIC_RESTART_COUNT", "x"}})),
               {"TORCHELASTIC_RESTART_COUNT is not a number", "TORCHELASTIC_RESTART_COUNT=x"});
}

TEST(Detection, TorchrunInsideOtherLaunchersWins) {
  for (const Environment& outer : {open_mpi(), mpich(), slurm()})
    EXPECT_EQ(text(detect(both(outer, torchrun()))), text(detect(torchrun())));
}

TEST(Detection, IncompleteTorchrunIsOneFaultThatNamesEverything) {
  for (const std::string name :
       {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    expect_fault(fault(without(torchrun(), name)),
                 {name + " is missing", "torchrun", "JoinOptions::launcher"});
    expect_fault(fault(with(torchrun(), {{name, ""}})), {name + " is missing", name + "=,"});
  }
  expect_fault(fault({{"RANK", "0"}}),
               {"WORLD_SIZE is missing", "LOCAL_RANK is missing", "MASTER_ADDR is missing",
                "MASTER_PORT is missing", "Found: RANK=0.", "MASTER_PORT (1 to 65535)"});
  // The launcher outside does not stand in for what is missing.
  expect_fault(fault(both(open_mpi(), without(torchrun(), "WORLD_SIZE"))),
               {"WORLD_SIZE is missing", "OMPI_COMM_WORLD_SIZE=3"});
}

TEST(Detection, LeftoversOfTorchrunAloneAreAFault) {
  expect_fault(fault({{"WORLD_SIZE", "2"}}), {"RANK is missing", "WORLD_SIZE=2"});
  expect_fault(fault({{"LOCAL_RANK", "0"}}), {"RANK is missing", "LOCAL_RANK=0"});
}

TEST(Detection, NumbersOutOfRangeAreNamedWithTheirRange) {
  const auto torchrun_fault = [](const std::string& name, const std::string& value) {
    return fault(with(torchrun(), {{name, value}}));
  };
  expect_fault(torchrun_fault("RANK", "8"), {"RANK is not a number from 0 to 7", "RANK=8"});
  expect_fault(torchrun_fault("RANK", "-1"), {"RANK is not a number from 0 to 7"});
  expect_fault(torchrun_fault("RANK", "1x"), {"RANK is not a number", "RANK=1x"});
  expect_fault(torchrun_fault("RANK", " 1"), {"RANK is not a number"});
  expect_fault(torchrun_fault("RANK", "+1"), {"RANK is not a number"});
  expect_fault(torchrun_fault("RANK", "99999999999999999999"), {"RANK is not a number"});
  expect_fault(torchrun_fault("WORLD_SIZE", "0"), {"WORLD_SIZE is not a number from 1 to 1048576"});
  expect_fault(torchrun_fault("WORLD_SIZE", "1048577"), {"WORLD_SIZE is not a number"});
  expect_fault(torchrun_fault("LOCAL_RANK", "4"), {"LOCAL_RANK is not a number from 0 to 3"});
  expect_fault(torchrun_fault("LOCAL_WORLD_SIZE", "9"),
               {"LOCAL_WORLD_SIZE is not a number from 1 to 8"});
  expect_fault(torchrun_fault("MASTER_PORT", "0"), {"MASTER_PORT is not a number from 1 to 65535"});
  expect_fault(torchrun_fault("MASTER_PORT", "65536"), {"MASTER_PORT is not a number"});
}

TEST(Detection, OpenMpiIsRead) {
  EXPECT_EQ(text(detect(open_mpi())), "Open MPI 2/3, local 1/2, store :0, job ");
}

TEST(Detection, MpichIsRead) {
  EXPECT_EQ(text(detect(mpich())), "MPICH 1/2, local 1/2, store :0, job ");
}

TEST(Detection, MpirunInsideAnAllocationWins) {
  EXPECT_EQ(detect(both(slurm(), open_mpi())).start, Start::open_mpi);
  EXPECT_EQ(detect(both(slurm(), mpich())).start, Start::mpich);
  EXPECT_EQ(detect(both(mpich(), open_mpi())).start, Start::open_mpi);
}

TEST(Detection, PmiOfSrunIsNoMpirun) {
  const Environment pmi2 = both(slurm(), {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});
  const Detected found = detect(pmi2);
  EXPECT_EQ(text(found), text(detect(slurm())));
  EXPECT_TRUE(found.has_pmi);
  EXPECT_FALSE(detect(slurm()).has_pmi);
  EXPECT_EQ(text(detect(pmi2, {.launcher = Launcher::mpi})),
            "MPICH 3/4, local 1/?, store :0, job ");
  EXPECT_EQ(detect(with(pmi2, {{"PMI_RANK", "0"}})).start, Start::mpich) << "below a daemon";
}

TEST(Detection, MpirunTakesAStoreAddressThatIsGiven) {
  EXPECT_EQ(text(detect(both(open_mpi(), {{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "1234"}}))),
            "Open MPI 2/3, local 1/2, store node1:1234, job ");
}

TEST(Detection, IncompleteMpirunIsAFault) {
  expect_fault(fault(without(open_mpi(), "OMPI_COMM_WORLD_RANK")),
               {"OMPI_COMM_WORLD_RANK is missing", "OMPI_COMM_WORLD_SIZE=3"});
  expect_fault(fault(without(open_mpi(), "OMPI_COMM_WORLD_SIZE")),
               {"OMPI_COMM_WORLD_SIZE is missing"});
  expect_fault(fault(without(mpich(), "PMI_RANK")), {"PMI_RANK is missing", "PMI_SIZE=2"});
  expect_fault(fault(with(mpich(), {{"PMI_RANK", "2"}})), {"PMI_RANK is not a number from 0 to 1"});
}

TEST(Detection, WorldSizeThatContradictsTheLauncherIsAFault) {
  for (const Environment& variables : {open_mpi(), mpich(), slurm()}) {
    expect_fault(fault(both(variables, {{"WORLD_SIZE", "77"}})),
                 {"WORLD_SIZE says 77 ranks", "contradict"});
  }
  EXPECT_EQ(detect(both(slurm(), {{"WORLD_SIZE", "4"}})).start, Start::slurm);
}

TEST(Detection, SlurmIsRead) {
  static_assert(5000 % 4096 + 61440 == 62344);
  EXPECT_EQ(text(detect(slurm())), "srun 3/4, local 1/?, store n007:62344, job slurm-5000.0");
}

TEST(Detection, SlurmFallsBackToTheJobsVariables) {
  const Environment variables =
      without(without(slurm(), "SLURM_STEP_NODELIST"), "SLURM_STEP_NUM_TASKS");

  EXPECT_EQ(detect(variables).host, "a");
  EXPECT_EQ(detect(variables).size, 6);
}

TEST(Detection, SlurmTakesAStoreAddressThatIsGiven) {
  EXPECT_EQ(text(detect(both(slurm(), {{"MASTER_ADDR", "x"}}))),
            "srun 3/4, local 1/?, store x:62344, job slurm-5000.0");
  EXPECT_EQ(text(detect(both(slurm(), {{"MASTER_PORT", "77"}}))),
            "srun 3/4, local 1/?, store n007:77, job slurm-5000.0");
}

TEST(Detection, EveryJobOfSlurmGetsAPort) {
  for (const std::string job : {"0", "1", "4095", "4096", "123456789", "4294967295"}) {
    const Detected found = detect(with(slurm(), {{"SLURM_JOB_ID", job}}));
    EXPECT_GE(found.port, 61440) << job;
  }
}

TEST(Detection, BatchScriptAndInteractiveShellAreNoSteps) {
  EXPECT_EQ(detect(without(slurm(), "SLURM_STEP_ID")).start, Start::alone);
  for (const std::string step : {"4294967290", "4294967291", "4294967292", "4294967294"}) {
    EXPECT_EQ(detect(with(slurm(), {{"SLURM_STEP_ID", step}})).start, Start::alone) << step;
  }
  EXPECT_EQ(detect(with(slurm(), {{"SLURM_STEP_ID", "4294967000"}})).start, Start::slurm);
}

TEST(Detection, IncompleteSlurmIsAFault) {
  expect_fault(fault(without(slurm(), "SLURM_PROCID")), {"SLURM_PROCID is missing", "srun"});
  expect_fault(fault(without(slurm(), "SLURM_LOCALID")), {"SLURM_LOCALID is missing"});
  expect_fault(fault(without(slurm(), "SLURM_JOB_ID")), {"SLURM_JOB_ID is missing"});
  expect_fault(fault(without(without(slurm(), "SLURM_NTASKS"), "SLURM_STEP_NUM_TASKS")),
               {"SLURM_STEP_NUM_TASKS or SLURM_NTASKS is missing"});
  expect_fault(fault(without(without(slurm(), "SLURM_STEP_NODELIST"), "SLURM_JOB_NODELIST")),
               {"SLURM_STEP_NODELIST or SLURM_JOB_NODELIST is missing"});
  expect_fault(fault(with(slurm(), {{"SLURM_STEP_NODELIST", "n[1-"}})), {"host list \"n[1-\""});
  expect_fault(fault(with(slurm(), {{"SLURM_STEP_ID", "x"}})), {"SLURM_STEP_ID is not a number"});
}

TEST(Detection, SingleTaskIsOneRankOfItsLauncher) {
  EXPECT_EQ(text(detect({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}})),
            "Open MPI 0/1, local 0/?, store :0, job ");
  EXPECT_EQ(text(detect({{"SLURM_JOB_ID", "1"},
                         {"SLURM_STEP_ID", "2"},
                         {"SLURM_PROCID", "0"},
                         {"SLURM_NTASKS", "1"}})),
            "srun 0/1, local 0/?, store :0, job slurm-1.2");
}

}  // namespace
}  // namespace shampoo::rendezvous
