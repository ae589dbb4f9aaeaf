// SPDX-License-Identifier: Apache-2.0
#include "tests/distributor/transports/transport_processes.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "distributor/store/store_server.h"
#include "distributor/system/time_left.h"

namespace shampoo::test {

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void be_rank(int rank, int pipe, const std::function<std::string(int)>& body) {
  std::string said;
  int status = 0;
  try {
    said = body(rank);
  } catch (const std::exception& error) {
    said = error.what();
    status = 1;
  }
  const ssize_t written = write(pipe, said.data(), said.size());
  _exit(written < 0 ? 2 : status);
}

[[noreturn]] void be_store(int pipe) noexcept {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const StoreServer server;
  const std::uint16_t port = server.port();
  if (write(pipe, &port, sizeof(port)) != sizeof(port)) _exit(1);
  for (;;) pause();
}

bool has_stopped(pid_t process) {
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  return std::ranges::all_of(std::filesystem::directory_iterator(tasks), [](const auto& task) {
    std::string line;
    std::getline(std::ifstream(task.path() / "stat"), line);
    return line.find(") T") != std::string::npos;  // behind the name in brackets
  });
}

struct Child {
  pid_t pid = 0;
  int pipe = -1;
};

/// Forks a child that runs run(pipe), which does not return; the parent reads the pipe's other end.
Child start(const std::function<void(int pipe)>& run) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
  const pid_t pid = fork();
  if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (pid == 0) {
    close(ends[0]);
    run(ends[1]);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

/// What comes until the child ends or the time is over.
std::string read_all(int pipe, Clock::time_point end) {
  std::string said;
  std::array<char, 4096> part{};
  for (;;) {
    pollfd ready{pipe, POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(time_left(end).count())) <= 0) return said;
    const ssize_t got = read(pipe, part.data(), part.size());
    if (got <= 0) return said;
    said.append(part.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

StoreProcess::StoreProcess() {
  const Child store = start(be_store);
  pid_ = store.pid;
  const bool serves = read(store.pipe, &port_, sizeof(port_)) == sizeof(port_);
  close(store.pipe);
  if (!serves) throw std::runtime_error("no store is served");
}

void StoreProcess::stop() const {
  kill(pid_, SIGSTOP);
  while (!has_stopped(pid_)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

StoreProcess::~StoreProcess() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::vector<Ending> run_processes(int count, const std::function<std::string(int)>& body,
                                  std::chrono::milliseconds longest) {
  std::vector<Child> children;
  for (int rank = 0; rank < count; ++rank)
    children.push_back(start([&, rank](int pipe) { be_rank(rank, pipe, body); }));
  std::vector<Ending> endings(children.size());
  const Clock::time_point end = Clock::now() + longest;
  std::vector<bool> ended(children.size(), false);
  while (Clock::now() < end && std::ranges::find(ended, false) != ended.end()) {
    bool all_stopped = true;  // whom only SIGKILL ends, when the others have told
    for (std::size_t i = 0; i < children.size(); ++i) {
      if (ended[i]) continue;
      siginfo_t info{};
      waitid(P_PID, static_cast<id_t>(children[i].pid), &info,
             WEXITED | WSTOPPED | WNOHANG | WNOWAIT);
      const bool stopped = info.si_pid != 0 && info.si_code == CLD_STOPPED;
      ended[i] = info.si_pid != 0 && !stopped;
      all_stopped = all_stopped && (ended[i] || stopped);
    }
    if (all_stopped) break;
    poll(nullptr, 0, 5);
  }
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (!ended[i]) kill(children[i].pid, SIGKILL);
    endings[i].said = read_all(children[i].pipe, Clock::now() + std::chrono::seconds(1));
    int status = 0;
    waitpid(children[i].pid, &status, 0);
    endings[i].status = WIFEXITED(status) ? WEXITSTATUS(status) : -1 - WTERMSIG(status);
    close(children[i].pipe);
  }
  return endings;
}

}  // namespace shampoo::test
