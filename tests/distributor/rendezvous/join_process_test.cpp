// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>

#include "distributor/rendezvous/own_address.h"
#include "distributor/rendezvous/registration.h"
#include "distributor/serialization.h"
#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "distributor/system/library_version.h"
#include "distributor/transports/gloo/gloo.h"
#include "join_workers.h"

namespace shampoo {
namespace {

TEST(JoinProcess, ProcessWithoutLauncherIsOneRank) {
  Process process(worker(), {});

  expect_line(process, 0, 1, "one rank");
}

TEST(JoinProcess, PartialVariablesAreRefused) {
  Process process(worker(), {{"RANK", "0"}, {"WORLD_SIZE", "2"}});

  expect_error(process, "Found: RANK=0, WORLD_SIZE=2");
}

TEST_F(JoinProcesses, ThreeRanksJoinAtTheStoreOfRankZero) {
  const int port = free_port();
  std::deque<Process> processes;
  for (const int rank : {2, 0, 1}) {
    processes.emplace_back(worker({"steps=5"}), torchrun(rank, 3, port, false));
  }

  expect_line(processes[0], 2, 3, "torchrun");
  expect_line(processes[1], 0, 3, "torchrun");
  expect_line(processes[2], 1, 3, "torchrun");
}

TEST_F(JoinProcesses, RestartedRanksJoinAtTheStoreOfTheLauncher) {
  const StoreServer server;
  for (int restarts = 0; restarts < 3; ++restarts) {
    std::deque<Process> processes;
    for (int rank = 0; rank < 3; ++rank) {
      processes.emplace_back(worker(), restarted(torchrun(rank, 3, server.port(), true), restarts));
    }
    for (int rank = 0; rank < 3; ++rank) expect_line(processes[rank], rank, 3, "torchrun");
  }
}

TEST_F(JoinProcesses, RankZeroIsAClientWhereThePortIsTaken) {
  const StoreServer server;
  std::deque<Process> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.emplace_back(worker(), torchrun(rank, 2, server.port(), false));
  }

  for (int rank = 0; rank < 2; ++rank) expect_line(processes[rank], rank, 2, "torchrun");
}

TEST_F(JoinProcesses, TasksOfSrunJoinOnTheFirstHost) {
  const int port = free_port();
  std::deque<Process> processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.emplace_back(worker(), slurm(rank, 2, port));
  }

  for (int rank = 0; rank < 2; ++rank) expect_line(processes[rank], rank, 2, "srun");
}

TEST_F(JoinProcesses, MissingRankIsNamedByTheOthers) {
  const int port = free_port();
  std::deque<Process> processes;
  for (const int rank : {0, 2}) {
    processes.emplace_back(worker({"connect_deadline=2000"}), torchrun(rank, 3, port, false));
  }

  for (Process& process : processes) {
    expect_error(process, "rank 1 did not come within 2 s to the store 127.0.0.1:" +
                              std::to_string(port) + "\n");
  }
}

TEST_F(JoinProcesses, OtherBuildIsRefusedByAll) {
  const int port = free_port();
  std::deque<Process> processes;
  processes.emplace_back(worker({"build=new"}), torchrun(0, 3, port, false));
  processes.emplace_back(worker({"build=new"}), torchrun(1, 3, port, false));
  processes.emplace_back(worker({"build=old"}), torchrun(2, 3, port, false));

  for (Process& process : processes) expect_error(process, "has the build \"new\"");
}

TEST_F(JoinProcesses, RankTakenTwiceIsRefusedByAll) {
  const StoreServer server;
  std::deque<Process> processes;
  for (const int rank : {1, 0, 1}) {
    processes.emplace_back(worker({"connect_deadline=20000"}),
                           torchrun(rank, 3, server.port(), true));
  }

  for (Process& process : processes) expect_error(process, "two processes are rank 1");
}

TEST_F(JoinProcesses, TwoJobsJoinAtOneStore) {
  const StoreServer server;
  std::deque<Process> processes;
  for (const std::string job : {"one", "two"})
    for (int rank = 0; rank < 2; ++rank) {
      Variables variables = torchrun(rank, 2, server.port(), true);
      variables["TORCHELASTIC_RUN_ID"] = job;
      processes.emplace_back(worker(), variables);
    }
  for (int i = 0; i < 4; ++i) expect_line(processes[i], i % 2, 2, "torchrun");
}

TEST_F(JoinProcesses, RankThatDiesIsAnErrorOfTheOthers) {
  const StoreServer server;
  std::deque<Process> processes;
  for (const std::string fault : {"die", "exit", "stop"})
    for (int rank = 0; rank < 3; ++rank) {
      Variables variables = torchrun(rank, 3, server.port(), true);
      variables["TORCHELASTIC_RUN_ID"] = fault;
      processes.emplace_back(
          worker({"steps=4", "deadline=3000", "fault_rank=1", "fault_step=2", "fault=" + fault}),
          variables);
    }

  for (const std::size_t i : {0, 2, 3, 5, 6, 8}) expect_error(processes[i], "error: ");
}

TEST_F(JoinProcesses, RankZeroThatDiesWithItsStoreIsNamed) {
  const int port = free_port();
  std::deque<Process> processes;
  for (int rank = 0; rank < 3; ++rank) {
    processes.emplace_back(
        worker({"steps=4", "deadline=20000", "fault_rank=0", "fault_step=2", "fault=die"}),
        torchrun(rank, 3, port, false));
  }

  for (const int rank : {1, 2}) expect_error(processes[rank], "rank 0 of the job, may be gone");
}

TEST_F(JoinProcesses, AddressOfAnotherHostIsAnErrorOfAll) {
  const int port = free_port();
  std::deque<Process> processes;
  for (int rank = 0; rank < 3; ++rank) {
    // 192.0.2.0/24 is for documentation.
    processes.emplace_back(worker({rank == 1 ? "own_address=192.0.2.1" : "own_address=127.0.0.1"}),
                           torchrun(rank, 3, port, false));
  }

  const std::string reason =
      "JoinOptions::own_address: must be an address, a name or a network interface of this host, "
      "got \"192.0.2.1\"";
  for (Process& process : processes) expect_error(process, reason);
  for (const int rank : {0, 2}) expect_error(processes[rank], "rank 1 (host ");
}

TEST_F(JoinProcesses, FirstOfTheInterfacesForGlooIsTakenOrNamed) {
  const auto with_interfaces = [](const char* interfaces) {
    Variables variables = torchrun(0, 1, free_port(), false);
    variables["GLOO_SOCKET_IFNAME"] = interfaces;
    return variables;
  };
  Process right(worker({"transport=gloo"}), with_interfaces("lo,eth77"));
  Process wrong(worker({"transport=gloo"}), with_interfaces("eth77,lo"));
  expect_line(right, 0, 1, "torchrun");
  expect_error(wrong,
               "GLOO_SOCKET_IFNAME: must be an address, a name or a network interface of "
               "this host, got \"eth77\"");
}

TEST_F(JoinProcesses, TooFewDescriptorsAreAnErrorOfAll) {
  const int port = free_port();
  std::deque<Process> processes;
  processes.emplace_back(worker(), torchrun(0, 2, port, false));
  processes.emplace_back(
      std::vector<std::string>{"/bin/sh", "-c", "ulimit -n 17; exec " JOIN_WORKER},
      torchrun(1, 2, port, false));

  const std::string reason = "may open 17 files (ulimit -n), but 2 ranks need 18";
  for (Process& process : processes) expect_error(process, reason);
}

/// Prefix of the keys of a job without an id.
const std::string job = "/shampoo/join/", first_attempt = job + "/0";

/// A store connection of the test itself.
std::unique_ptr<Store> client_of(const StoreServer& server) {
  return connect_store("127.0.0.1", server.port(), std::chrono::seconds(20));
}

TEST_F(JoinProcesses, ConnectingEndsWithTheConnectDeadline) {
  const StoreServer server;
  Process rank_0(worker({"connect_deadline=2000", "deadline=600000"}),
                 torchrun(0, 2, server.port(), true));

  // Registers, and never connects.
  const auto store = client_of(server);
  const rendezvous::RegistrationResult result = rendezvous::register_rank(
      *store,
      {.library = std::string(library_version()),
       .rank = 1,
       .size = 2,
       .transport = "Gloo",
       .process = {.host = "here", .identity = this_process()}},
      {.prefix = job,
       .summarize =
           [](const std::vector<rendezvous::ProcessInfo>& processes) {
             rendezvous::Network network = rendezvous::choose_network(processes);
             return serialize(network);
           },
       .end = std::chrono::steady_clock::now() + std::chrono::seconds(20)});
  EXPECT_EQ(result.error, "");

  expect_error(rank_0, "rank 1 did not come within ");
}

TEST_F(JoinProcesses, StoreOfADyingRankZeroIsNotTheLastWord) {
  auto dying = std::make_unique<StoreServer>();
  const int port = dying->port();
  std::deque<Process> processes;
  processes.emplace_back(worker(), torchrun(1, 2, port, false));
  const std::vector<std::string> registered = {first_attempt + "/rank/1"};
  ASSERT_TRUE(client_of(*dying)->wait(registered, std::chrono::seconds(20)));

  dying.reset();
  processes.emplace_back(worker(), torchrun(0, 2, port, false));

  expect_line(processes[0], 1, 2, "torchrun");
  expect_line(processes[1], 0, 2, "torchrun");
}

TEST_F(JoinProcesses, MissingLauncherIsWaitedForAndNamed) {
  const int port = free_port();
  Process process(worker({"connect_deadline=500"}), torchrun(1, 2, port, true));

  expect_error(process, std::to_string(port));
}

}  // namespace
}  // namespace shampoo
