// SPDX-License-Identifier: Apache-2.0
// Stores that stop, and stores with a secret.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <deque>
#include <stdexcept>

#include "distributor/store/store.h"
#include "distributor/store/store_server.h"
#include "join_workers.h"

namespace shampoo {
namespace {

/// A store in a process of its own.
class StoppableServer {
 public:
  StoppableServer() {
    std::array<int, 2> ends{};
    if (pipe(ends.data()) != 0) throw std::runtime_error("pipe");
    process_ = fork();
    if (process_ == 0) {
      const StoreServer server;
      const int port = server.port();
      [[maybe_unused]] const ssize_t written = write(ends[1], &port, sizeof port);
      while (true) pause();
    }
    [[maybe_unused]] const ssize_t count = read(ends[0], &port_, sizeof port_);
    for (const int end : ends) close(end);
  }
  ~StoppableServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  StoppableServer(const StoppableServer&) = delete;
  StoppableServer& operator=(const StoppableServer&) = delete;

  int port() const { return port_; }
  void stop() const { kill(process_, SIGSTOP); }

 private:
  pid_t process_ = -1;
  int port_ = 0;
};

TEST_F(JoinProcesses, JoiningEndsInTimeWhereTheProcessOfTheStoreIsStopped) {
  StoppableServer server;
  std::deque<Process> processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.emplace_back(worker({"connect_deadline=3000"}),
                           torchrun(rank, 3, server.port(), true));
  const auto client = connect_store("127.0.0.1", static_cast<std::uint16_t>(server.port()),
                                    std::chrono::seconds(20));
  const std::string prefix = "/shampoo/join//0/0/rank/";
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
  {
    const int port = free_port();
    std::deque<Process> processes;
    for (int rank = 0; rank < 2; ++rank)
      processes.emplace_back(worker(), with_secret(torchrun(rank, 2, port, false), ours));
    for (int rank = 0; rank < 2; ++rank) expect_line(processes[rank], rank, 2, "torchrun");
  }
  const int port = free_port();
  Process first(worker({"connect_deadline=3000"}), with_secret(torchrun(0, 2, port, false), ours));
  Process other(worker({"connect_deadline=1000"}),
                with_secret(torchrun(1, 2, port, false), "the secret of another job"));
  expect_error(other, "does not prove the job's secret");
  expect_error(first, "rank 1 did not come within 3 s");
}

}  // namespace
}  // namespace shampoo
