// SPDX-License-Identifier: Apache-2.0
// Stores that stop, and stores with a secret.
#include <chrono>
#include <deque>

#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "join_workers.h"
#include "tests/distributor/transports/transport_processes.h"

namespace shampoo {
namespace {

TEST_F(JoinProcesses, JoiningEndsInTimeWhereTheProcessOfTheStoreIsStopped) {
  const test::StoreProcess server;
  std::deque<Process> processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.emplace_back(worker({"connect_deadline=3000"}),
                           torchrun(rank, 3, server.port(), true));
  const auto client = connect_store("127.0.0.1", server.port(), std::chrono::seconds(20));
  const std::string prefix = "/shampoo/join//0/rank/";
  const std::vector<std::string> registered{prefix + "0", prefix + "1"};
  ASSERT_TRUE(client->wait(registered, std::chrono::seconds(20)));
  const auto begin = std::chrono::steady_clock::now();

  server.stop();

  for (Process& process : processes) expect_error(process, "store 127.0.0.1:");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5)) << "3 s at most";
}

TEST_F(JoinProcesses, RanksMeetWithTheSecretOfTheirJob) {
  const auto with_secret = [](Variables variables, const char* secret) {
    variables["SHAMPOO_JOB_SECRET"] = secret;
    return variables;
  };
  constexpr const char* ours = "the secret of this job";
  const int port = free_port();
  std::deque<Process> processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.emplace_back(worker(), with_secret(torchrun(rank, 2, port, false), ours));
  const StoreServer server({.secret = ours});
  Process other(worker({"connect_deadline=1000"}),
                with_secret(torchrun(0, 2, server.port(), true), "the secret of another job"));
  for (int rank = 0; rank < 2; ++rank) expect_line(processes[rank], rank, 2, "torchrun");
  expect_error(other, "does not prove the job's secret");
}

}  // namespace
}  // namespace shampoo
