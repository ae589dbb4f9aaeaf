// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/ranks.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "distributor/communicator.h"
#include "distributor/rendezvous/join.h"
#include "distributor/store/store_server.h"
#include "kernels/backend.h"

namespace shampoo::test {

namespace {

bool is_started_by_a_launcher() {
  for (const char* const name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_STEP_ID"})
    if (std::getenv(name)) return true;
  return false;
}

void join_and_run(const std::function<void(Communicator&)>& body) {
  const auto backend = cpu_backend({.threads = 1});
  const auto ranks = join(*backend);
  body(*ranks);
}

void set_rank(int rank, int ranks, int port) {
  const auto set = [](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
  };
  set("RANK", std::to_string(rank));
  set("LOCAL_RANK", std::to_string(rank));
  set("WORLD_SIZE", std::to_string(ranks));
  set("LOCAL_WORLD_SIZE", std::to_string(ranks));
  set("MASTER_ADDR", "127.0.0.1");
  set("MASTER_PORT", std::to_string(port));
  set("TORCHELASTIC_USE_AGENT_STORE", "True");
  set("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1");
}

/// Other ranks of the job; what is left of them ends with this.
class Peers {
 public:
  ~Peers() {
    for (const pid_t peer : peers_) ::kill(peer, SIGKILL);
    wait();
  }
  void start(char** argv) {
    pid_t peer = 0;
    const int error = ::posix_spawn(&peer, "/proc/self/exe", nullptr, nullptr, argv, environ);
    if (error != 0)
      throw std::runtime_error(std::string("a rank cannot be started: ") + std::strerror(error));
    peers_.push_back(peer);
  }
  /// The largest exit status, or 128 + the signal.
  int wait() {
    int worst = 0;
    for (const pid_t peer : peers_) {
      int status = 0;
      while (::waitpid(peer, &status, 0) < 0 && errno == EINTR) {
      }
      worst = std::max(worst, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
    }
    peers_.clear();
    return worst;
  }

 private:
  std::vector<pid_t> peers_;
};

[[noreturn]] void exec_mpirun(int ranks, char** argv) {
  std::string count = std::to_string(ranks);
  std::vector<std::string> words = {"mpirun", "--oversubscribe", "-n", count};
  for (char** word = argv; *word; ++word) words.emplace_back(*word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
  ::setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
  ::execvp("mpirun", pointers.data());
  throw std::runtime_error(std::string("mpirun cannot be started: ") + std::strerror(errno));
}

}  // namespace

int with_ranks(int ranks, const std::string& communicator, char** argv,
               const std::function<void(Communicator&)>& body) {
  if (communicator == "threads") {
    run_ranks(ranks, body);
    return 0;
  }
  if (is_started_by_a_launcher()) {
    join_and_run(body);
    return 0;
  }
  if (communicator == "mpi") exec_mpirun(ranks, argv);

  const StoreServer server;
  Peers peers;
  for (int rank = 1; rank < ranks; ++rank) {
    set_rank(rank, ranks, server.port());
    peers.start(argv);
  }
  set_rank(0, ranks, server.port());
  join_and_run(body);
  return peers.wait();
}

}  // namespace shampoo::test
